"""`python -m benchmarks [NAME ...]`: every benchmark, or those named."""

import importlib
import pkgutil
import sys

import benchmarks
from fluoroscope import process_tuning

process_tuning.apply()
names = sys.argv[1:] or [module.name for module in pkgutil.iter_modules(benchmarks.__path__) if module.name[0] != "_"]
for name in names:
    print(f"--- {name}", flush=True)
    importlib.import_module(f"benchmarks.{name}").main()
