"""R-GAP (Zhu and Blaschko 2021): the image behind one image's gradient, layer by layer, without a search.

The dense layer's gradient is (p - y) times its input: label and features can be read off. From there towards the pixels
a layer's input is what explains both its weight gradient and its output: linear equations, solved in float64.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from fluoroscope.attacks.closed_form.rgap.deconvolution import NOISE, before_convolution, padding
from fluoroscope.errors import BadInput, Unsupported
from fluoroscope.types import State

WORKS = (
    "R-GAP inverts convolutions (one group, padded with zeros), Sigmoid, Tanh, LeakyReLU, Flatten and dense layers, "
    "one after another, with a dense layer that has a bias at the end."
)
OTHERS = "Model lenet5 is one such. For others use an optimisation attack, such as dlg."
SMALLER = "Use smaller images (lenet5: up to 38x38), or an optimisation attack, such as dlg."
EXPLAINED = 1e-2
"""How far the recovered image's gradient may be from the one seen."""
RANK_ONE = 1e-3
"""How much of the dense gradient may be left unexplained by one image; float32 leaves about 1e-7."""


@dataclass(frozen=True)
class Activation:
    """The way back through an activation: its inverse, and its slope there."""

    inverse: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]
    """As a function of the output."""


def recover(
    model: nn.Module, state: State, gradients: Mapping[str, Tensor], shape: tuple[int, int, int]
) -> tuple[Tensor, int]:
    """The image (1, channels, height, width) and its label, from the gradient of the cross-entropy at `state`."""
    layers = _chain(model)
    shapes = _shapes(layers, shape)
    known = {name: tensor.detach().cpu().double() for name, tensor in state.items()}
    seen = {name: tensor.detach().cpu().double() for name, tensor in gradients.items()}

    name, _ = layers[-1]
    value, delta, label = _read_head(name, known, seen)
    error = torch.full_like(value, NOISE)
    for (name, layer), before in zip(reversed(layers[:-1]), reversed(shapes[:-1]), strict=True):
        # `value` and `delta`: this layer's output, and the loss's derivative there.
        if isinstance(layer, nn.Flatten):
            value, delta = value.reshape(before), delta.reshape(before)
        elif isinstance(layer, nn.Linear):
            value = delta @ seen[f"{name}.weight"] / (delta @ delta)
            delta = delta @ known[f"{name}.weight"]
        elif isinstance(layer, nn.Conv2d):
            weight, bias = known[f"{name}.weight"], known.get(f"{name}.bias")
            output = value if bias is None else value - bias[:, None, None]
            try:
                value, delta = before_convolution(layer, weight, seen[f"{name}.weight"], output, delta, error, before)
            except torch.linalg.LinAlgError as failure:  # type: ignore[attr-defined]  # its stub does not export it
                raise Unsupported(
                    f"R-GAP cannot invert layer {name}: its units are saturated. {WORKS}", OTHERS
                ) from failure
        else:
            way = _activation(layer)
            assert way is not None  # _chain let nothing else through
            slope = way.slope(value)
            value, delta = way.inverse(value), delta * slope
            error = NOISE / slope.abs().clamp(min=NOISE)  # a saturated unit says little about its input
            continue
        error = torch.full_like(value, NOISE)
    image = value.float()[None]
    _check(model, state, gradients, image, label)
    return image, label


def _check(model: nn.Module, state: State, gradients: Mapping[str, Tensor], image: Tensor, label: int) -> None:
    """Counting equations does not show that they are independent; an image that explains the gradient does."""
    parameters = {
        n: state[n].detach().cpu().clone().requires_grad_() for n, p in model.named_parameters() if p.requires_grad
    }
    with torch.enable_grad():
        loss = F.cross_entropy(torch.func.functional_call(model, parameters, (image,)), torch.tensor([label]))
        again = dict(zip(parameters, torch.autograd.grad(loss, list(parameters.values())), strict=True))
    for name, gradient in again.items():
        seen = gradients[name].detach().cpu()
        apart = float(torch.linalg.norm(gradient - seen) / torch.linalg.norm(seen))
        if not apart < EXPLAINED:
            raise Unsupported(
                f"R-GAP's image does not explain the gradient of {name} (off by {apart:.1%}): saturated units, or "
                "too few equations at this size.",
                SMALLER,
            )


def _chain(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """The layers from input to output with their names, or Unsupported at the first that has no way back."""
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
    return isinstance(layer, nn.Linear | nn.Flatten) or _activation(layer) is not None


def _activation(layer: nn.Module) -> Activation | None:
    edge = 1 - 1e-12  # float32 rounds a saturated unit to its limit, where the inverse is infinite
    if isinstance(layer, nn.Sigmoid):
        return Activation(lambda a: a.clamp(1 - edge, edge).logit(), lambda a: (a * (1 - a)).clamp(min=0))
    if isinstance(layer, nn.Tanh):
        return Activation(lambda a: a.clamp(-edge, edge).atanh(), lambda a: (1 - a**2).clamp(min=0))
    if isinstance(layer, nn.LeakyReLU) and layer.negative_slope > 0:
        leak = layer.negative_slope
        return Activation(lambda a: torch.where(a < 0, a / leak, a), lambda a: torch.where(a < 0, leak, 1.0).to(a))
    return None


def _shapes(layers: list[tuple[str, nn.Module]], shape: tuple[int, int, int]) -> list[tuple[int, ...]]:
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


def _read_head(name: str, known: State, seen: State) -> tuple[Tensor, Tensor, int]:
    """The features, the derivative there, and the label: the only logit that a step would raise."""
    delta, outer = seen[f"{name}.bias"], seen[f"{name}.weight"]
    if not delta.any():
        raise BadInput(
            f"The gradient of {name}.bias is zero: the network was certain of this image, so nothing leaked."
        )
    features = delta @ outer / (delta @ delta)
    left = torch.linalg.norm(outer - torch.outer(delta, features)) / torch.linalg.norm(outer)
    if not float(left) < RANK_ONE:
        raise Unsupported(
            f"R-GAP needs the undisturbed gradient of one image: {float(left):.1%} of the gradient of {name}.weight is "
            "from more images, further steps or a defence.",
            "Use an optimisation attack, such as dlg.",
        )
    return features, delta @ known[f"{name}.weight"], int(delta.argmin())
