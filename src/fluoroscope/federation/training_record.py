"""A client's training as plain data, in plans and manifests: optimiser and loss by name.

Manifests of the first format name neither: then it was SGD or Adam, with cross-entropy.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Literal, Required

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.models.imported import imported
from fluoroscope.types import (
    Adam,
    AdamW,
    BinaryCrossEntropy,
    CrossEntropy,
    CustomLoss,
    LocalOptimiser,
    LocalTraining,
    Loss,
    Normalisation,
    OneGradient,
    Sgd,
)

OPTIMISERS: dict[str, type[LocalOptimiser]] = {"sgd": Sgd, "adam": Adam, "adamw": AdamW, "gradient": OneGradient}
LOSSES: dict[str, type[Loss]] = {"cross-entropy": CrossEntropy, "multi-label": BinaryCrossEntropy}


def loss_of(name: str, settings: Mapping[str, Any]) -> Loss:
    """The named loss with its settings; `package.module:function` is a callable of your own, which has none."""
    if name in LOSSES:
        found: Loss = _made(LOSSES[name], settings)
        return found
    if ":" not in name:
        raise Misconfigured(
            f"there is no loss {name!r}. Known: {', '.join(LOSSES)}, or an import path package.module:function."
        )
    if settings:
        raise Misconfigured(f"the loss {name} takes no setting {sorted(settings)[0]!r}: set it in your own function.")
    return CustomLoss(imported(name), name)


def plain_training(training: LocalTraining) -> dict[str, Any]:
    """What a manifest keeps of it."""
    plain = asdict(training)
    plain["optimiser"] = {"name": _name(OPTIMISERS, training.optimiser), **asdict(training.optimiser)}
    loss = training.loss
    if isinstance(loss, CustomLoss):
        plain["loss"] = {"name": loss.path}
    else:
        plain["loss"] = {"name": _name(LOSSES, loss), **asdict(loss)}  # type: ignore[call-overload]
    return plain


@with_config(ConfigDict(extra="forbid"))
class _Numbers(TypedDict, total=False):
    """What a training has beside its optimiser, its loss and its normalisation."""

    images: Required[int]
    batch_size: Required[int]
    epochs: int
    batchnorm: Literal["train", "eval"]
    batchnorm_momentum: float
    proximal_mu: float
    max_steps: int | None
    clip_norm: float | None
    frozen: tuple[str, ...]


def read_training(plain: object) -> LocalTraining:
    """From a manifest.

    Raises:
        ValueError: it is no training.
    """
    if isinstance(plain, LocalTraining):
        return plain
    try:
        return _read(plain)
    except (TypeError, KeyError, AttributeError, OverflowError) as problem:
        raise ValueError("no training") from problem


def _read(plain: Any) -> LocalTraining:  # noqa: ANN401  # JSON is any of its own types
    found = dict(plain)
    optimiser, loss = dict(found.pop("optimiser")), found.pop("loss", "cross-entropy")
    kind = optimiser.pop("name", "adam" if "betas" in optimiser else "sgd")
    loss = {"name": loss} if isinstance(loss, str) else dict(loss)
    name = loss.pop("name")
    if name is None:
        raise BadInput("the client trained with a callable that has no import path: its record cannot be read again.")
    normalisation = found.pop("normalisation", None)
    return LocalTraining(
        optimiser=_made(OPTIMISERS[kind], optimiser),
        loss=loss_of(name, loss),
        normalisation=None if normalisation is None else _made(Normalisation, normalisation),
        **_NUMBERS.validate_python({**found, "frozen": tuple(found.get("frozen", ()))}, strict=True),
    )


_NUMBERS = TypeAdapter(_Numbers)


def _name(kinds: Mapping[str, type], part: object) -> str:
    return next(name for name, kind in kinds.items() if type(part) is kind)


def _made(kind: Any, settings: Mapping[str, Any]) -> Any:  # noqa: ANN401  # one of several dataclasses
    try:
        return TypeAdapter(kind).validate_python(dict(settings))
    except ValidationError as problem:
        first = problem.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise Misconfigured(f"{kind.__name__}: {where}: {first['msg']}, not {first['input']!r}.") from problem
