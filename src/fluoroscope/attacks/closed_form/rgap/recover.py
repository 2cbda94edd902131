"""R-GAP (Zhu and Blaschko 2021): the image behind one image's gradient, layer by layer, without a search.

The dense layer's gradient is (p - y) times its input: label and features can be read off. From there towards the pixels
a layer's input is what explains both its weight gradient and its output: linear equations, solved in float64.
"""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fluoroscope.attacks.closed_form.rgap.chain import OTHERS, SMALLER, WORKS, Chain, activation
from fluoroscope.attacks.closed_form.rgap.deconvolution import NOISE, before_convolution
from fluoroscope.errors import BadInput, Unsupported
from fluoroscope.types import State

EXPLAINED = 1e-2
"""How far the recovered image's gradient may be from the one seen."""
RANK_ONE = 1e-3
"""How much of the dense gradient may be left unexplained by one image; float32 leaves about 1e-7."""


def recover(chain: Chain, state: State, gradients: Mapping[str, Tensor]) -> tuple[Tensor, int]:
    """The image (1, channels, height, width) and its label, from the gradient of the cross-entropy at `state`."""
    known = {name: tensor.detach().cpu().double() for name, tensor in state.items()}
    seen = {name: tensor.detach().cpu().double() for name, tensor in gradients.items()}

    name, _ = chain.layers[-1]
    value, delta, label = _read_head(name, known, seen)
    error = torch.full_like(value, NOISE)
    for (name, layer), before in zip(reversed(chain.layers[:-1]), reversed(chain.shapes[:-1]), strict=True):
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
            way = activation(layer)
            assert way is not None  # a chain has nothing else
            slope = way.slope(value)
            value, delta = way.inverse(value), delta * slope
            error = NOISE / slope.abs().clamp(min=NOISE)  # a saturated unit says little about its input
            continue
        error = torch.full_like(value, NOISE)
    return value.float()[None], label


def explained(
    model: nn.Module, state: State, gradients: Mapping[str, Tensor], image: Tensor, label: int
) -> dict[str, Tensor]:
    """The image's own gradient, or Unsupported where it is another one.

    Counting equations does not show that they are independent; an image that explains the gradient does.
    """
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
    return again


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
