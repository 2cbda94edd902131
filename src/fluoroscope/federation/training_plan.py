"""A plan's [training]: how clients train."""

from typing import Literal, Self

from pydantic import Field, model_validator

from fluoroscope.federation.sections import Section


class NormalisationPlan(Section):
    """What is done to pixels in [0, 1] before the network: (x - mean) / std."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


class TrainingPlan(Section):
    """How clients train in one round."""

    optimiser: Literal["sgd", "adam", "adamw", "gradient"] = "sgd"
    lr: float = Field(default=0.01, gt=0)
    lr_decay: float = Field(default=1.0, gt=0, le=1)
    lr_decay_every: int | None = Field(default=None, ge=1)
    """Rounds between two decays (P1: x 0.1 every 40)."""
    momentum: float = Field(default=0.0, ge=0, lt=1)
    nesterov: bool = False
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = Field(default=1e-8, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)
    """adamw: 0.01, as torch has it."""
    batch_size: int = Field(default=8, ge=1, le=1_000_000)
    """For clients whose partition does not set their own."""
    epochs: int = Field(default=1, ge=1, le=10_000)
    steps: int | None = Field(default=None, ge=1, le=10_000_000)
    """Optimiser steps in a round, in the place of epochs."""
    loss: str = "cross-entropy"
    """cross-entropy, multi-label, or `package.module:function`."""
    class_weights: tuple[float, ...] | None = None
    """Of cross-entropy, one per class; of multi-label, of a finding that is there."""
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    normalisation: NormalisationPlan | None = None
    clip_norm: float | None = Field(default=None, gt=0)
    """The L2 norm that each step's gradient is clipped to."""
    frozen: tuple[str, ...] = ()
    """Parameters that are not trained, as patterns of their names: `layer1.*`."""
    batchnorm: Literal["train", "eval"] = "train"
    batchnorm_momentum: float = Field(default=0.1, gt=0, le=1)

    @model_validator(mode="before")
    @classmethod
    def _other_words(cls, given: object) -> object:
        """`optimizer` is understood, and adamw decays as torch's does where the plan does not say."""
        if not isinstance(given, dict):
            return given
        said = dict(given)
        if "optimizer" in said and "optimiser" not in said:
            said["optimiser"] = said.pop("optimizer")
        if said.get("optimiser") == "adamw":
            said.setdefault("weight_decay", 0.01)
        return said

    @model_validator(mode="after")
    def _settings_go_together(self) -> Self:
        if self.lr_decay != 1 and self.lr_decay_every is None:
            raise ValueError("lr_decay needs lr_decay_every: after how many rounds")
        if self.optimiser != "sgd" and (self.momentum or self.nesterov):
            raise ValueError("momentum and nesterov belong to sgd; remove them or set optimiser = 'sgd'")
        if self.optimiser == "gradient" and self.weight_decay:
            raise ValueError("a gradient that is sent as it is has no weight_decay; remove it or choose an optimiser")
        if self.steps is not None and self.epochs != 1:
            raise ValueError("steps stand in the place of epochs; remove one of the two")
        if self.label_smoothing and self.loss != "cross-entropy":
            raise ValueError("label_smoothing belongs to the loss cross-entropy; remove it")
        return self
