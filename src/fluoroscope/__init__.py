"""fluoroscope measures what a medical federation leaks, and what stops it.

The public names stand in `__init__.pyi`, one per line; that is where one is added. Each is imported when it is first
asked for, since torch takes seconds, and importing this package changes nothing in the process.
"""

import ast
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

_MODULES = {
    alias.name: statement.module
    for statement in ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")).body
    if isinstance(statement, ast.ImportFrom)
    for alias in statement.names
}
"""Where each public name is made."""

__all__ = sorted([*_MODULES, "__version__"])  # derived from the stub


class _Package(ModuleType):
    """This package as its importers see it."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        if name == "__version__":
            from importlib.metadata import version

            found: Any = version("fluoroscope")
        elif name in _MODULES:
            found = getattr(import_module(str(_MODULES[name])), name)
        else:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        self.__dict__[name] = found  # the next time it is simply there
        return found

    def __setattr__(self, name: str, value: object) -> None:
        # Importing a room binds its name here; a public function of that name is not to be hidden by it.
        if not (name in _MODULES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _Package
