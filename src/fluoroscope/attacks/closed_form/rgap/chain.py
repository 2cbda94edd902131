"""A network as the chain of layers that R-GAP goes back along, with the shapes between them."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, fx, nn

from fluoroscope.attacks.closed_form.rgap.deconvolution import padding
from fluoroscope.errors import Unsupported
from fluoroscope.types import Network, blueprint

WORKS = (
    "R-GAP inverts convolutions (one group, padded with zeros), Sigmoid, Tanh, LeakyReLU, Flatten and dense layers, "
    "one after another, with a dense layer that has a bias at the end."
)
OTHERS = "Model lenet5 is one such. For others use an optimisation attack, such as dlg."
SMALLER = "Use smaller images (lenet5: up to 38x38), or an optimisation attack, such as dlg."


@dataclass(frozen=True)
class Activation:
    """The way back through an activation: its inverse, and its slope there."""

    inverse: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]
    """As a function of the output."""


@dataclass(frozen=True, eq=False)
class Chain:
    """Layers by name from input to output, and the shape of each one's input; their weights are not asked for."""

    layers: list[tuple[str, nn.Module]]
    shapes: list[tuple[int, ...]]

    @classmethod
    def of(cls, model: nn.Module, shape: tuple[int, ...]) -> "Chain":
        """Unsupported, at the first layer that has no way back, or leaves too much open."""
        layers = _chain(model)
        return cls(layers, _shapes(layers, shape))


@lru_cache(maxsize=8)
def chain_of(network: Network) -> Chain:
    """Read once for all of a network's observations: that takes as long as a tenth of the way back."""
    return Chain.of(blueprint(network), network.input_shape)


def _chain(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """The layers from input to output with their names."""
    try:
        graph = fx.Tracer().trace(model)
    except Exception as error:  # fx raises whatever the forward does when handed a proxy
        raise Unsupported(
            f"{type(model).__name__} is not a plain chain of layers ({error}). {WORKS}", OTHERS
        ) from error
    layers: list[tuple[str, nn.Module]] = []
    previous: fx.Node | None = None
    for node in graph.nodes:
        if node.op == "output":
            break
        if previous is not None:
            straight = node.all_input_nodes == [previous] and node.args[0] is previous
            module = _as_module(model, node) if straight else None
            name = str(node.target) if node.op == "call_module" else node.name
            if module is None or not _invertible(module):
                what = type(model.get_submodule(name)).__name__ if node.op == "call_module" else node.op
                raise Unsupported(f"R-GAP cannot invert layer {name} ({what}). {WORKS}", OTHERS)
            layers.append((name, module))
        previous = node
    if not layers or not isinstance(layers[-1][1], nn.Linear) or layers[-1][1].bias is None:
        raise Unsupported(
            f"R-GAP cannot start: {type(model).__name__} does not end in a dense layer with a bias. {WORKS}",
            OTHERS,
        )
    return layers


def _as_module(model: nn.Module, node: fx.Node) -> nn.Module | None:
    if node.op == "call_module":
        return model.get_submodule(str(node.target))
    flattens = node.target == "flatten" or node.target is torch.flatten
    return nn.Flatten() if flattens and (node.args[1:] == (1,) or node.kwargs == {"start_dim": 1}) else None


def _invertible(layer: nn.Module) -> bool:
    if isinstance(layer, nn.Conv2d):
        return layer.groups == 1 and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    return isinstance(layer, nn.Linear | nn.Flatten) or activation(layer) is not None


def activation(layer: nn.Module) -> Activation | None:
    """None where there is no way back."""
    edge = 1 - 1e-12  # float32 rounds a saturated unit to its limit, where the inverse is infinite
    if isinstance(layer, nn.Sigmoid):
        return Activation(lambda a: a.clamp(1 - edge, edge).logit(), lambda a: (a * (1 - a)).clamp(min=0))
    if isinstance(layer, nn.Tanh):
        return Activation(lambda a: a.clamp(-edge, edge).atanh(), lambda a: (1 - a**2).clamp(min=0))
    if isinstance(layer, nn.LeakyReLU) and layer.negative_slope > 0:
        leak = layer.negative_slope
        return Activation(lambda a: torch.where(a < 0, a / leak, a), lambda a: torch.where(a < 0, leak, 1.0).to(a))
    return None


def _shapes(layers: list[tuple[str, nn.Module]], shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The shape of every layer's input; Unsupported where a convolution leaves too much open."""
    shapes: list[tuple[int, ...]] = []
    now: tuple[int, ...] = shape
    for name, layer in layers:
        shapes.append(now)
        after = _after(layer, now)
        if isinstance(layer, nn.Conv2d):
            pixels = now[1] * now[2]
            taps = layer.kernel_size[0] * layer.kernel_size[1]
            equations = now[0] * min(layer.out_channels * taps, pixels) + after[0] * after[1] * after[2]
            if equations < now[0] * pixels:
                raise Unsupported(
                    f"R-GAP cannot invert layer {name} at this size: its input has {now[0] * pixels} unknowns, and its "
                    f"gradient and output give {equations} equations.",
                    SMALLER,
                )
        now = after
    return shapes


def _after(layer: nn.Module, shape: tuple[int, ...]) -> tuple[int, ...]:
    if isinstance(layer, nn.Conv2d):
        settings = zip(shape[1:], padding(layer), layer.dilation, layer.kernel_size, layer.stride, strict=True)
        sides = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in settings]
        return (layer.out_channels, *sides)
    if isinstance(layer, nn.Linear):
        return (layer.out_features,)
    return (math.prod(shape),) if isinstance(layer, nn.Flatten) else shape
