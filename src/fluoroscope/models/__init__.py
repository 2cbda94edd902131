"""One architecture per file, each registered by name when this package is imported."""

from fluoroscope.models import (  # noqa: F401  (imported for their registration)
    efficientnet_lite0,
    lenet5,
    p3_cnn,
    resnet18,
    resnet18_sigmoid,
    small_cnn,
    vit,
)
from fluoroscope.models.architecture import MODELS, Architecture, Builder
from fluoroscope.models.imported import ImportedNetwork

__all__ = ["MODELS", "Architecture", "Builder", "ImportedNetwork"]
