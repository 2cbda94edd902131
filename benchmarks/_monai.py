"""Honest networks of hospitals, for the guard's benchmark: MONAI's, and parts that look odd and are not."""

import copy
import math
import warnings
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Made = tuple[str, Callable[[], nn.Module], tuple[int, ...]]


def monai() -> list[Made]:
    """(name, maker, shape of an input)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from monai.networks import nets
    flat, colour, volume = (1, 64, 64), (3, 64, 64), (1, 32, 32, 32)
    small = {"hidden_size": 48, "mlp_dim": 96, "num_heads": 4}
    vae = {"latent_size": 8, "channels": (8, 16), "strides": (2, 2)}
    made: list[Made] = [
        ("densenet121", lambda: nets.DenseNet121(2, 1, 3), flat),
        ("densenet121-rgb", lambda: nets.DenseNet121(2, 3, 14), colour),
        ("densenet169", lambda: nets.DenseNet169(2, 1, 2), flat),
        ("densenet-small", lambda: nets.DenseNet(2, 1, 3, 16, 8, (2, 2, 2)), flat),
        ("densenet-3d", lambda: nets.DenseNet(3, 1, 3, 8, 4, (2, 2)), volume),
        ("resnet10", lambda: nets.resnet10(spatial_dims=2, n_input_channels=1, num_classes=3), flat),
        ("resnet18", lambda: nets.resnet18(spatial_dims=2, n_input_channels=3, num_classes=5), colour),
        ("resnet34", lambda: nets.resnet34(spatial_dims=2, n_input_channels=1, num_classes=2), flat),
        ("resnet10-3d", lambda: nets.resnet10(spatial_dims=3, n_input_channels=1, num_classes=3), volume),
        ("seresnet50", lambda: nets.SEResNet50(spatial_dims=2, in_channels=1, num_classes=3), flat),
        ("seresnext50", lambda: nets.SEResNext50(spatial_dims=2, in_channels=1, num_classes=3), flat),
        ("senet154", lambda: nets.SENet(2, 1, "se_bottleneck", (1, 1, 1, 1), 8, 16, num_classes=4), flat),
        ("efficientnet-b0", lambda: nets.EfficientNetBN("efficientnet-b0", False, spatial_dims=2, in_channels=1), flat),
        (
            "efficientnet-b1",
            lambda: nets.EfficientNetBN("efficientnet-b1", False, spatial_dims=2, num_classes=2),
            colour,
        ),
        ("unet", lambda: nets.UNet(2, 1, 2, (8, 16, 32), (2, 2)), flat),
        ("unet-res", lambda: nets.UNet(2, 1, 3, (8, 16, 32, 64), (2, 2, 2), num_res_units=2), flat),
        ("unet-3d", lambda: nets.UNet(3, 1, 2, (8, 16, 32), (2, 2), num_res_units=1), volume),
        ("unet-batch", lambda: nets.UNet(2, 1, 2, (8, 16, 32), (2, 2), norm="batch"), flat),
        ("basic-unet", lambda: nets.BasicUNet(2, 1, 2, (8, 8, 16, 32, 64, 8)), flat),
        ("basic-unet-3d", lambda: nets.BasicUNet(3, 1, 2, (4, 4, 8, 16, 32, 4)), volume),
        ("attention-unet", lambda: nets.AttentionUnet(2, 1, 2, (8, 16, 32), (2, 2)), flat),
        ("unetr", lambda: nets.UNETR(1, 2, 64, feature_size=8, spatial_dims=2, **small), flat),
        ("unetr-3d", lambda: nets.UNETR(1, 2, 32, feature_size=8, spatial_dims=3, **small), volume),
        ("swin-unetr", lambda: nets.SwinUNETR(1, 2, feature_size=12, spatial_dims=2), flat),
        ("vnet", lambda: nets.VNet(2, 1, 2), flat),
        ("segresnet", lambda: nets.SegResNet(2, 8, 1, 2, blocks_down=(1, 1, 2), blocks_up=(1, 1)), flat),
        ("segresnet-3d", lambda: nets.SegResNet(3, 8, 1, 2, blocks_down=(1, 1, 2), blocks_up=(1, 1)), volume),
        ("segresnet-vae", lambda: nets.SegResNetVAE((64, 64), spatial_dims=2, init_filters=8, in_channels=1), flat),
        ("dynunet", lambda: nets.DynUNet(2, 1, 2, [3, 3, 3], [1, 2, 2], [2, 2], filters=[8, 16, 32]), flat),
        ("highresnet", lambda: nets.HighResNet(2, 1, 2), flat),
        (
            "vit",
            lambda: nets.ViT(1, 64, 16, classification=True, num_layers=3, spatial_dims=2, num_classes=3, **small),
            flat,
        ),
        (
            "vit-perceptron",
            lambda: nets.ViT(
                1, 64, 16, classification=True, num_layers=2, spatial_dims=2, proj_type="perceptron", **small
            ),
            flat,
        ),
        ("vit-3d", lambda: nets.ViT(1, 32, 16, classification=True, num_layers=2, spatial_dims=3, **small), volume),
        ("vit-autoenc", lambda: nets.ViTAutoEnc(1, 64, 16, num_layers=2, spatial_dims=2, **small), flat),
        ("autoencoder", lambda: nets.AutoEncoder(2, 1, 1, (8, 16), (2, 2)), flat),
        ("var-autoencoder", lambda: nets.VarAutoEncoder(2, (1, 32, 32), 1, **vae), (1, 32, 32)),
        ("var-autoencoder-64", lambda: nets.VarAutoEncoder(2, flat, 1, **vae), flat),
        ("fully-connected", lambda: nets.FullyConnectedNet(64, 10, [64, 32]), (64,)),
        ("var-fully-connected", lambda: nets.VarFullyConnectedNet(64, 10, 8, [32], [32]), (64,)),
        ("regressor", lambda: nets.Regressor(flat, (3,), (8, 16), (2, 2)), flat),
        ("classifier", lambda: nets.Classifier(flat, 4, (8, 16, 32), (2, 2, 2)), flat),
        ("discriminator", lambda: nets.Discriminator(flat, (8, 16), (2, 2)), flat),
        ("critic", lambda: nets.Critic(flat, (8, 16), (2, 2)), flat),
        ("generator", lambda: nets.Generator((16,), (8, 8, 8), (8, 4), (2, 2), num_res_units=1), (16,)),
        ("milmodel", lambda: nets.FlexibleUNet(3, 2, "efficientnet-b0", spatial_dims=2), colour),
    ]
    return made


class Film(nn.Module):
    """Features scaled and shifted by what a dense layer makes of pooled ones."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.stem, self.film = nn.Conv2d(channels, 16, 3, padding=1), nn.Linear(16, 32)
        self.body, self.fc = nn.Conv2d(16, 32, 3, padding=1), nn.Linear(32, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.stem(x))
        scale, shift = self.film(y.mean(dim=(2, 3))).chunk(2, dim=1)
        y = F.relu(self.body(y * (1 + scale[:, :, None, None]) + shift[:, :, None, None]))
        return self.fc(y.mean(dim=(2, 3)))


class Context(nn.Module):
    """A dense layer on a coarse map, added to all places as their context."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.stem, self.context = nn.Conv2d(channels, 8, 3, padding=1), nn.Linear(8 * 16, 8)
        self.body, self.fc = nn.Conv2d(8, 16, 3, padding=1), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.stem(x))
        around = self.context(F.adaptive_avg_pool2d(y, 4).flatten(1))
        return self.fc(F.relu(self.body(y + around[:, :, None, None])).mean(dim=(2, 3)))


class Bottleneck(nn.Module):
    """A convolutional autoencoder with a dense code."""

    def __init__(self, channels: int, side: int) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(channels, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU())
        self.code, self.back = nn.Linear(16 * (side // 4) ** 2, 24), nn.Linear(24, 16 * (side // 4) ** 2)
        self.up = nn.Sequential(nn.ConvTranspose2d(16, 8, 2, 2), nn.ReLU(), nn.ConvTranspose2d(8, channels, 2, 2))

    def forward(self, x: Tensor) -> Tensor:
        y = self.down(x)
        return self.up(F.relu(self.back(self.code(y.flatten(1)))).view_as(y))


class Words(nn.Module):
    """A small language model."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(200, 32)
        self.block = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.fc = nn.Linear(32, 200)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.block(self.embed(x)))


class TwoInputs(nn.Module):
    """An image and a row of a table."""

    def __init__(self) -> None:
        super().__init__()
        self.image = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.table = nn.Sequential(nn.Linear(12, 32), nn.ReLU())
        self.fc = nn.Linear(40, 2)

    def forward(self, image: Tensor, table: Tensor) -> Tensor:
        return self.fc(torch.cat([self.image(image), self.table(table)], dim=1))


def odd() -> list[Made]:
    """Parts that look crafted to somebody who looks at structure alone."""
    return [
        ("film", lambda: Film(1), (1, 32, 32)),
        ("context", lambda: Context(1), (1, 32, 32)),
        ("bottleneck", lambda: Bottleneck(1, 32), (1, 32, 32)),
        (
            "tabular",
            lambda: nn.Sequential(nn.Linear(40, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)),
            (40,),
        ),
        (
            "lstm-free series",
            lambda: nn.Sequential(
                nn.Conv1d(2, 16, 7, 2), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(16, 3)
            ),
            (2, 128),
        ),
        ("weight-normed", lambda: _weight_normed(1), (1, 32, 32)),
    ]


def _weight_normed(channels: int) -> nn.Module:
    model = nn.Sequential(
        nn.Conv2d(channels, 16, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * 15 * 15, 64),
        nn.ReLU(),
        nn.Linear(64, 3),
    )
    for module in model:
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.utils.parametrizations.weight_norm(module)
    return model


def class_prior(model: nn.Module, rare: float) -> nn.Module:
    """The head's biases are the log of how often classes are."""
    model = copy.deepcopy(model)
    last = [m for m in model.modules() if isinstance(m, nn.Linear) and m.bias is not None][-1]
    with torch.no_grad():
        last.bias.fill_(math.log((1 - rare) / max(len(last.bias) - 1, 1)))
        last.bias[0] = math.log(rare)
    return model


def lora_merged(model: nn.Module, rank: int, rng: torch.Generator) -> nn.Module:
    """Every dense layer moved by a product of two thin matrices, as adapters leave it."""
    model = copy.deepcopy(model)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.Linear) and min(module.weight.shape) > rank:
                up = torch.randn(len(module.weight), rank, generator=rng)
                down = torch.randn(rank, module.weight.shape[1], generator=rng)
                change = up @ down
                module.weight += 0.3 * change * module.weight.norm() / change.norm()
    return model
