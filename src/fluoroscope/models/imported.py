"""Networks of your own that are given by an import path."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from torch import nn

from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.rng import derive, seeded_globals
from fluoroscope.types import LiveNetwork
from fluoroscope.types.network import Shape, with_scores


def imported(path: str) -> Any:  # noqa: ANN401  # anything can be imported
    """What `package.module:name` names."""
    module, colon, name = path.partition(":")
    if not (colon and module and name):
        raise Misconfigured(f"{path!r} is not an import path: write package.module:function.")
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as problem:
        raise BadInput(
            f"{path!r} cannot be imported: {problem}. It must be importable where the command runs; put its folder on "
            "PYTHONPATH."
        ) from problem
    return found


class ImportedNetwork(LiveNetwork):
    """A module that a function or class of yours makes: `package.module:function` with arguments.

    A record keeps the path and the arguments, so whoever has the code can build the network again.
    """

    def __init__(self, path: str, arguments: Mapping[str, Any], input_shape: Shape) -> None:
        self.path, self.arguments = path, dict(arguments)
        super().__init__(self._made(0), input_shape)

    def build(self, seed: int = 0) -> nn.Module:
        """Made anew, with the randomness of this seed."""
        return with_scores(self._made(seed))

    def _made(self, seed: int) -> nn.Module:
        made = imported(self.path)
        try:
            with seeded_globals(derive(seed, "initial weights", self.path)):
                module = made(**self.arguments)
        except Exception as problem:  # somebody else's code may stop in any way
            said = f"{self.path}({_said(self.arguments)})"
            raise BadInput(f"{said} failed with {type(problem).__name__}: {problem}") from problem
        if not isinstance(module, nn.Module):
            raise BadInput(f"{self.path} gives a {type(module).__name__}, not a torch module.")
        return module


def _said(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items())
