"""A small vision transformer (Dosovitskiy et al. 2021): no BatchNorm, no convolution but the patches.

Attention is written out in matrix products: the fused kernel lacks a second derivative on some backends, and
inversion needs it. Positions are an embedding layer, since Opacus knows no bare parameters. No dropout.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fluoroscope.models.architecture import MODELS, Architecture
from fluoroscope.models.limits import check_limits
from fluoroscope.models.weights import started

GRID = 8  # patches along a side, so that the cost hardly depends on the size of the image


class Attention(nn.Module):
    """Multi-head self-attention."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        n, tokens, dim = x.shape
        split: Tensor = self.qkv(x).reshape(n, tokens, 3, self.heads, dim // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-2, -1) * (dim // self.heads) ** -0.5
        mixed = (scores.softmax(dim=-1) @ value).transpose(1, 2).reshape(n, tokens, dim)
        y: Tensor = self.out(mixed)
        return y


class Block(nn.Module):
    """Attention and a two-layer network, each behind its LayerNorm and around a shortcut (pre-norm)."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attention = Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        y: Tensor = x + self.mlp(self.norm2(x))
        return y


class VisionTransformer(nn.Module):
    """8x8 patches, the mean of the tokens for a class token."""

    def __init__(
        self, channels: int, classes: int, height: int, width: int, dim: int = 192, depth: int = 6, heads: int = 3
    ) -> None:
        super().__init__()
        patch = (-(-height // GRID), -(-width // GRID))
        # An odd size is framed in zeros up to whole patches.
        self.padding = _around(GRID * patch[1] - width) + _around(GRID * patch[0] - height)
        self.patches = nn.Conv2d(channels, dim, kernel_size=patch, stride=patch)
        self.positions = nn.Embedding(GRID * GRID, dim)
        self.blocks = nn.Sequential(*(Block(dim, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(dim)
        self.fc = nn.Linear(dim, classes)
        for module in self.modules():  # as Dosovitskiy et al. and DeiT: narrow normal weights, zero biases
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)
        nn.init.trunc_normal_(self.positions.weight, std=0.02)

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.patches(F.pad(images, self.padding)).flatten(2).transpose(1, 2)
        places = torch.arange(GRID * GRID, device=images.device).expand(len(images), -1)
        x = self.norm(self.blocks(tokens + self.positions(places)))
        logits: Tensor = self.fc(x.mean(dim=1))
        return logits


def _around(padding: int) -> tuple[int, int]:
    return padding // 2, padding - padding // 2


@MODELS.register("vit-small")
def vit_small(architecture: Architecture) -> nn.Module:
    """Depth 6, width 192, 3 heads: about 2.7 M parameters."""
    check_limits(architecture)
    module = VisionTransformer(architecture.channels, architecture.classes, architecture.height, architecture.width)
    return started(module, architecture.weights, stem="patches.weight", head="fc")
