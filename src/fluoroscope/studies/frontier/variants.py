"""Networks and ways to train them that hospitals use, as changes of a plain client's round."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fluoroscope.models.resnet18 import ResNet18
from fluoroscope.models.vit import Attention
from fluoroscope.types import Normalisation, UpdateRecord

RANK = 4
"""Of a LoRA adapter."""
BACKBONE = ("conv1.*", "bn1.*", "layer?.*")
"""All of a ResNet but its head."""


@dataclass(frozen=True)
class Variant:
    """What is other than in a plain round; the attacker knows all but what chance decides."""

    model: str = "resnet18"
    """What the federation trained before."""
    frozen: tuple[str, ...] = ()
    wrap: Callable[[nn.Module], nn.Module] | None = None
    """The network as the client trains it, with the federation's arrays under their names."""
    secret: bool = False
    """Whether the attacker is given the plain network in the place of the wrapped one."""
    images: Callable[[Tensor, torch.Generator], Tensor] | None = None
    """What the client does to its images before it trains on them."""
    normalisation: Normalisation | None = None
    sent: Callable[[UpdateRecord], UpdateRecord] | None = None
    """What becomes of the update on its way."""


def flipped(images: Tensor, rng: torch.Generator) -> Tensor:
    """Each mirrored with probability 1/2."""
    mirrored = torch.rand(len(images), generator=rng) < 0.5
    return torch.where(mirrored[:, None, None, None], images.flip(3), images)


def rotated(images: Tensor, rng: torch.Generator, most: float = 10.0) -> Tensor:
    """Each by an angle of up to so many degrees to either side."""
    angles = torch.deg2rad(most * (2 * torch.rand(len(images), generator=rng) - 1))
    return _sampled(images, angles.cos(), angles.sin(), torch.zeros(len(images), 2))


def cropped(images: Tensor, rng: torch.Generator, least: float = 0.8) -> Tensor:
    """A window of at least this share of each side, at a random place, drawn out to the whole size."""
    sides = least + (1 - least) * torch.rand(len(images), generator=rng)
    shifts = (2 * torch.rand(len(images), 2, generator=rng) - 1) * (1 - sides)[:, None]
    return _sampled(images, sides, torch.zeros(len(images)), shifts)


def _sampled(images: Tensor, cosine: Tensor, sine: Tensor, shifts: Tensor) -> Tensor:
    rows = [torch.stack([cosine, -sine, shifts[:, 0]], 1), torch.stack([sine, cosine, shifts[:, 1]], 1)]
    grid = F.affine_grid(torch.stack(rows, 1), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False).clamp(0, 1)


class _DroppedOut(ResNet18):
    """A ResNet-18 with half of its head's inputs dropped in training; the names of its arrays are the same."""

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.fc(F.dropout(self.features(images), 0.5, training=self.training))
        return logits


def with_dropout(module: nn.Module) -> nn.Module:
    """The network with dropout before its head."""
    assert isinstance(module, ResNet18)
    module.__class__ = _DroppedOut
    return module


class _Autocast(ResNet18):
    """A ResNet-18 whose passes are computed in bfloat16 where torch deems that safe."""

    def forward(self, images: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            logits = super().forward(images)
        return logits.float()


def in_mixed_precision(module: nn.Module) -> nn.Module:
    """The network under autocast to bfloat16."""
    assert isinstance(module, ResNet18)
    module.__class__ = _Autocast
    return module


class _Lora(nn.Linear):
    """A frozen dense layer with a trained change of low rank (Hu et al. 2022), begun at no change."""

    def adapt(self) -> None:
        self.lora_a = nn.Parameter(torch.randn(RANK, self.in_features) / self.in_features**0.5)
        self.lora_b = nn.Parameter(torch.zeros(self.out_features, RANK))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + x @ self.lora_a.T @ self.lora_b.T


def with_lora(module: nn.Module) -> nn.Module:
    """The network with an adapter beside each attention's queries, keys and values."""
    for attention in [each for each in module.modules() if isinstance(each, Attention)]:
        attention.qkv.__class__ = _Lora
        assert isinstance(attention.qkv, _Lora)
        attention.qkv.adapt()
    return module


def rounded(record: UpdateRecord, kind: torch.dtype, weights: bool) -> UpdateRecord:
    """The record as it arrives where weights, or their changes, are sent in a shorter format."""
    before = record.state_before
    after = {
        name: value.to(kind).float()
        if weights
        else before[name] + (value.double() - before[name].double()).to(kind).to(value.dtype)
        for name, value in record.state_after.items()
    }
    return replace(record, state_after=after)


def _weights_in_bfloat16(record: UpdateRecord) -> UpdateRecord:
    return rounded(record, torch.bfloat16, weights=True)


def _changes_in_bfloat16(record: UpdateRecord) -> UpdateRecord:
    return rounded(record, torch.bfloat16, weights=False)


ARCHITECTURES: dict[str, Variant] = {
    "resnet18": Variant(),
    "resnet18-gn": Variant("resnet18-gn"),
    "efficientnet-lite0": Variant("efficientnet-lite0"),
    "p3-cnn": Variant("p3-cnn"),
    "vit-small": Variant("vit-small"),
    "resnet18, head alone": Variant(frozen=BACKBONE),
    "vit-small, LoRA and head": Variant(
        "vit-small",
        frozen=(
            "patches.*",
            "positions.*",
            "norm.*",
            "blocks.*.norm?.*",
            "blocks.*.mlp.*",
            "*.out.*",
            "*.qkv.weight",
            "*.qkv.bias",
        ),
        wrap=with_lora,
    ),
}
TRAININGS: dict[str, Variant] = {
    "plain": Variant(),
    "flip": Variant(images=flipped),
    "rotation, up to 10 degrees": Variant(images=rotated),
    "crop, at least .8": Variant(images=cropped),
    "normalisation": Variant(normalisation=Normalisation((0.5,), (0.25,))),
    "dropout .5 before the head": Variant(wrap=with_dropout),
    "bfloat16 autocast": Variant(wrap=in_mixed_precision, secret=True),
    "changes sent in bfloat16": Variant(sent=_changes_in_bfloat16),
    "weights sent in bfloat16": Variant(sent=_weights_in_bfloat16),
}
VARIANTS = ARCHITECTURES | TRAININGS
