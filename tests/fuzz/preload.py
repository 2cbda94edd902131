"""All modules of the package, imported once: every process that is forked has them."""

import importlib
from pathlib import Path

import fluoroscope

_WITHOUT = ("integrations/nvflare/", "integrations/monai/", "decoders/process.py")
"""They import what takes seconds, or are programs of their own."""


def everything() -> None:
    root = Path(fluoroscope.__file__).parent
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if not name.startswith(_WITHOUT) and path.name != "__main__.py":
            parts = ("fluoroscope", *path.relative_to(root).with_suffix("").parts)
            importlib.import_module(".".join(parts).removesuffix(".__init__"))
    importlib.import_module("matplotlib.pyplot")
