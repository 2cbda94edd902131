"""Where a network cuts its image into patches, and which pixel lies where in them."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from fluoroscope.attacks.common.setup import Setup
from fluoroscope.models.modes import named_buffers


@dataclass(frozen=True, eq=False)
class PatchEmbedding:
    """A linear map of patches that do not overlap, and parameters that may be those of positions."""

    weight: str
    """Name of its weight, (dim, values) once it is flattened."""
    places: Tensor
    """(patches, values): the number of the pixel that stands there, from 1 on; 0 where the image was framed."""
    positions: tuple[str, ...]
    """Names of parameters with a vector of that dimension for each patch, and perhaps for a class token before them."""

    def image(self, patches: Tensor, pixels: int) -> Tensor:
        """(pixels,): each one where it came from."""
        found = patches.new_zeros(pixels + 1)
        return found.index_put((self.places.flatten(),), patches.flatten())[1:]


def patch_embeddings(setup: Setup) -> list[PatchEmbedding]:
    """All that one pass meets, as convolutions whose stride is their kernel or as dense layers on patches."""
    shape = setup.network.input_shape
    count = shape[0] * shape[1] * shape[2]
    # Each pixel is its own number: where that is found behind rearrangements, there the pixel is.
    numbers = torch.arange(1, count + 1, dtype=torch.float64)
    probe = unnormalised((numbers / (count + 1)).view(1, *shape), setup)
    names = {module: name for name, module in setup.model.named_modules()}
    found: list[PatchEmbedding] = []

    def note(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        (x,) = inputs
        weight = f"{names[module]}.weight"
        patches = _patches(module, x)
        if patches is None or weight not in setup.update:
            return
        places = _places(patches, count)
        if places is not None:
            dim = len(setup.update[weight])
            found.append(PatchEmbedding(weight, places, _positions(setup, len(places), dim)))

    kinds = nn.Conv2d | nn.Linear
    handles = [m.register_forward_pre_hook(note) for m in setup.model.modules() if isinstance(m, kinds)]
    state = {**setup.state, **named_buffers(setup.model, setup.state)}
    doubles = {name: value.double() if value.is_floating_point() else value for name, value in state.items()}
    try:
        with torch.no_grad():
            functional_call(setup.model, doubles, (torch.cat([probe, probe]),))
    finally:
        for handle in handles:
            handle.remove()
    return found


def _patches(module: nn.Module, x: Tensor) -> Tensor | None:
    """(patches, values) of the first image, in the order of the tokens."""
    if isinstance(module, nn.Conv2d):
        cuts = module.kernel_size == module.stride and max(module.kernel_size) > 1 and module.groups == 1
        framed = module.padding not in ((0, 0), "valid")
        return F.unfold(x[:1], module.kernel_size, stride=module.stride)[0].T if cuts and not framed else None
    if isinstance(module, nn.Linear) and x.ndim == 3:
        return x[0]
    return None


def unnormalised(values: Tensor, setup: Setup) -> Tensor:
    """Pixels that the client's normalisation would make these of."""
    mean, std = _line(values, setup)
    return values * std + mean


def _line(values: Tensor, setup: Setup) -> tuple[Tensor, Tensor]:
    told = setup.training.normalisation
    mean, std = ((0.0,), (1.0,)) if told is None else (told.mean, told.std)
    return values.new_tensor(mean)[:, None, None], values.new_tensor(std)[:, None, None]


def _places(values: Tensor, count: int) -> Tensor | None:
    """The numbers of the pixels that these values are; None where they are something else, or some are missing."""
    numbers = values * (count + 1)
    places = numbers.round().clamp(0, count).long()
    known = (numbers - places).abs() < 0.01
    whole = torch.unique(places[known & (places > 0)]).numel() == count
    return torch.where(known, places, 0) if whole and int(known.sum()) >= count else None


def _positions(setup: Setup, patches: int, dim: int) -> tuple[str, ...]:
    sizes = {dim * patches, dim * (patches + 1)}
    return tuple(n for n, v in setup.update.items() if v.numel() in sizes and v.ndim >= 2 and v.shape[-1] == dim)
