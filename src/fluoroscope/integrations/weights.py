"""Weights as a framework sends them, numpy or torch, whole or as differences: read strictly, and put back alike."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fluoroscope.errors import Refused
from fluoroscope.models.code_files import is_evaluated
from fluoroscope.models.names import prefix_of
from fluoroscope.types import State


@dataclass(frozen=True, eq=False)
class Weights:
    """Arrays by name, in the framework's own types."""

    arrays: Mapping[str, Any]
    difference: bool = False
    """Whether they are differences to the model before the round."""

    def after(self, before: State) -> dict[str, Tensor]:
        """The model that these weights make of the one before, under its names.

        Raises:
            Refused: an array is none, or is not one of the model before.
        """
        sent = tensors(self.arrays)
        prefix = prefix_of(sent, before)  # such as DistributedDataParallel's `module.`
        sent = {name.removeprefix(prefix): value for name, value in sent.items()}
        for name, value in sent.items():
            if name not in before:
                raise Refused("an array in it has a name that the received model does not have")
            if value.shape != before[name].shape:
                raise Refused(f"{name!r} in it has another shape than in the received model")
        if not self.difference:
            return sent
        return {name: (before[name].double() + value.double()).to(value.dtype) for name, value in sent.items()}

    def holding(self, state: State, before: State) -> dict[str, Any]:
        """The same kind of arrays with the values of `state`.

        What `state` leaves as it was stays the very array, to the last bit. What it does not name stays at the site: in
        its place the server gets its own value back, so that its aggregation meets whole models.
        """
        then, prefix = self.after(before), prefix_of(self.arrays, before)
        held = {}
        for given, array in self.arrays.items():
            name = given.removeprefix(prefix)
            now = state.get(name, before[name]).detach().cpu()
            if torch.equal(now.to(then[name].dtype), then[name]):
                held[given] = array
            else:
                value = now.double() - before[name].double() if self.difference else now
                held[given] = _like(array, value)
        return held


def tensors(arrays: object) -> dict[str, Tensor]:
    """Copies as tensors: who sent the arrays may go on to change them.

    Raises:
        Refused: there is none, one is not an array of numbers, or there is code among them.
    """
    if not isinstance(arrays, Mapping) or not arrays:
        raise Refused("it carries no weights")
    if is_evaluated(arrays):
        raise Refused("it carries a configuration that MONAI would run as code, where weights are asked for")
    found = {_name(name): _tensor(value) for name, value in arrays.items()}
    if not any(value.numel() for value in found.values()):
        raise Refused("its arrays hold no number")
    return found


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise Refused(f"its arrays are named by {type(name).__name__}, not by text")
    return name


def _tensor(value: object) -> Tensor:
    if isinstance(value, Tensor):
        if value.layout != torch.strided or value.is_quantized or value.is_meta:
            raise Refused("one of its arrays is a sparse, quantised or empty tensor")
        return value.detach().cpu().clone()
    if isinstance(value, np.ndarray | np.generic | float | int):  # an average of one number is no longer an array
        array = np.asarray(value)
        if array.dtype.kind in "fiub" and array.dtype.itemsize <= 8:
            # In this machine's byte order, and in memory of its own.
            return torch.from_numpy(np.array(array, dtype=array.dtype.newbyteorder("="), order="C", copy=True))
    raise Refused(f"one of its arrays is a {type(value).__name__} that is not made of numbers")


def _like(array: object, value: Tensor) -> object:
    """The value in the type that the array had."""
    if isinstance(array, Tensor):
        return _rounded(value, array.is_floating_point()).to(array.dtype).to(array.device)
    own = np.asarray(array)
    made = _rounded(value, own.dtype.kind == "f").numpy().astype(own.dtype)
    return made if isinstance(array, np.ndarray) else made[()]


def _rounded(value: Tensor, fraction: bool) -> Tensor:
    return value if fraction or not value.is_floating_point() else value.round()
