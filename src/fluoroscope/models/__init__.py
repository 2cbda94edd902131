"""One architecture a file, each registered by name when this package is imported."""

from fluoroscope.models import (  # noqa: F401  (imported for their registration)
    efficientnet_lite0,
    lenet5,
    p3_cnn,
    resnet18,
    resnet18_sigmoid,
    small_cnn,
    vit,
)
from fluoroscope.models.registry import MODELS, Builder, build

__all__ = ["MODELS", "Builder", "build"]
