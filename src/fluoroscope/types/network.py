"""What an attack, a guard or a defence needs of any network: that it can be built again, and what goes in and out."""

import copy
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import lru_cache

import torch
from torch import Tensor, nn

from fluoroscope.errors import BadInput, Unsupported

Shape = tuple[int, int, int]
"""Channels, height and width of one image."""


class Network(ABC):
    """A network that can be built again anywhere it is needed: by its registered name, or from a live module."""

    name: str
    """What messages call it."""

    @property
    @abstractmethod
    def input_shape(self) -> Shape:
        """Channels, height and width of the images that it takes."""

    @property
    @abstractmethod
    def outputs(self) -> int:
        """How many numbers it gives for an image: one per class, or one per finding."""

    @property
    @abstractmethod
    def key(self) -> str:
        """The same for what builds the same network: what is kept for later is kept under it."""

    @abstractmethod
    def build(self, seed: int = 0) -> nn.Module:
        """A new module that maps images (n, *input_shape) to a tensor (n, outputs)."""

    @staticmethod
    def of(module: nn.Module, input_shape: Shape) -> "Network":
        """A network that is a module of your own.

        Args:
            module: any module that takes a batch of images; it is copied, and never changed.
            input_shape: channels, height and width of one image.

        Raises:
            BadInput: the shape is not three positive numbers.
            Unsupported: the module does not run on such images, or gives no scores per image.

        Example:
            >>> from torch import nn
            >>> own = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 6, 2))
            >>> Network.of(own, (3, 8, 6)).outputs
            2
        """
        return LiveNetwork(module, input_shape)


@lru_cache(maxsize=8)
def blueprint(network: Network) -> nn.Module:
    """The network as a module that is only ever copied: building one for every round takes longer than a step."""
    return network.build()


class LiveNetwork(Network):
    """A module that somebody made: it starts from the weights it came with, whatever the seed."""

    def __init__(self, module: nn.Module, input_shape: Shape) -> None:
        shape = tuple(input_shape)
        if len(shape) != 3 or not all(isinstance(n, int) and n > 0 for n in shape):
            raise BadInput(f"input_shape is (channels, height, width), not {input_shape!r}.")
        self.name = type(module).__name__
        self._module = copy.deepcopy(module)
        self._shape: Shape = (shape[0], shape[1], shape[2])
        self._outputs = self._tried()

    @property
    def input_shape(self) -> Shape:
        return self._shape

    @property
    def outputs(self) -> int:
        return self._outputs

    @property
    def key(self) -> str:
        """Of its class, its layers and the shapes of its arrays; weights are a state's, not a network's."""
        kind, arrays = type(self._module), self._module.state_dict()
        shapes = [(name, tuple(value.shape), str(value.dtype)) for name, value in arrays.items()]
        about = (kind.__module__, kind.__qualname__, repr(self._module), shapes, self._shape)
        return f"{self.name}-{hashlib.sha256(repr(about).encode()).hexdigest()[:16]}"

    def build(self, seed: int = 0) -> nn.Module:
        return with_scores(copy.deepcopy(self._module))

    def __repr__(self) -> str:
        return f"Network.of({self.key}, {self._shape})"

    def _tried(self) -> int:
        """How many scores an image gets, by trying: in evaluation mode, where one image is enough."""
        module = self.build().eval()
        sample = next((p for p in module.parameters()), torch.zeros(()))
        images = torch.zeros((2, *self._shape), dtype=sample.dtype, device=sample.device)
        try:
            with torch.no_grad():
                found = module(images)
        except Unsupported:
            raise
        except Exception as problem:  # somebody else's forward may stop in any way
            raise Unsupported(
                f"{self.name} does not run on images of shape {self._shape} ({type(problem).__name__}: {problem}). "
                "Give the shape that it takes, or a module that needs the images alone."
            ) from problem
        if found.ndim != 2 or len(found) != 2:
            raise Unsupported(
                f"{self.name} gives {tuple(found.shape)} for two images, and a score per class for each was expected: "
                "(2, classes). Give a module that classifies."
            )
        return int(found.shape[1])


def with_scores(module: nn.Module) -> nn.Module:
    """The module in training mode, giving its scores alone whatever it returns."""
    module.register_forward_hook(_first_tensor)
    return module.train()


def _first_tensor(module: nn.Module, inputs: object, output: object) -> Tensor:
    """The scores in what a module returns: itself, `.logits` as Hugging Face has it, or the first of several."""
    if isinstance(output, Mapping) and not isinstance(output, Tensor):
        output = output.get("logits", output.get("out", next(iter(output.values()), None)))
    elif hasattr(output, "logits"):
        output = output.logits
    elif isinstance(output, tuple | list) and output:
        output = output[0]
    if not isinstance(output, Tensor):
        raise Unsupported(
            f"{type(module).__name__} returns {type(output).__name__}, in which no tensor of scores was found: return "
            "the scores, an object with `logits`, or a tuple that begins with them."
        )
    return output
