"""Options that say what was trained and how, for commands that are given checkpoints and no plan."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from fluoroscope.cli import options
from fluoroscope.errors import Misconfigured

ModelArguments = Annotated[
    list[str] | None, typer.Option(help="What the function is called with: classes=2. Repeatable.")
]
Size = Annotated[int | None, typer.Option(help="Pixels that images are brought to. [default: theirs]")]
Classes = Annotated[
    str | None,
    typer.Option(help="All classes in the order of the outputs: normal,pneumonia. [default: sorted by name]"),
]
Optimiser = Annotated[
    str | None, typer.Option("--optimiser", "--optimizer", help="sgd, adam, adamw or gradient. [default: sgd]")
]
Lr = Annotated[float | None, typer.Option(help="The learning rate. [default: 0.01]")]
Momentum = Annotated[float | None, typer.Option(help="Of sgd.")]
WeightDecay = Annotated[float | None, typer.Option(help="[default: 0; adamw: 0.01]")]
Epochs = Annotated[int | None, typer.Option(help="In the round. [default: 1]")]
Steps = Annotated[int | None, typer.Option(help="In the place of epochs.")]
BatchSize = Annotated[int | None, typer.Option(help="[default: 8]")]
Normalise = Annotated[
    str | None, typer.Option("--normalise", "--normalize", help="mean,std of pixels in [0, 1]: .48,.24")
]
Loss = Annotated[str | None, typer.Option(help="cross-entropy, multi-label or package.module:function.")]
Training = Annotated[
    list[str] | None, typer.Option(help="Any other key of a plan's [training]: clip_norm=1.0. Repeatable.")
]
Defences = Annotated[
    list[str] | None,
    typer.Option(help="What stood before the update: NAME:key=value,key=value. Repeatable, in its order."),
]


def told_training(given: Mapping[str, Any], normalise: str | None, others: Sequence[str] | None) -> dict[str, Any]:
    """Keys of a plan's [training]: those with an option of their own, and those of --training."""
    said = options.parsed(list(others or []))
    own = {**given, "normalisation": None if normalise is None else normalisation(normalise)}
    if twice := [key for key, value in own.items() if value is not None and key in said]:
        raise Misconfigured(f"{twice[0]} is given twice: as an option of its own, and with --training.")
    return {**own, **said}


def normalisation(said: str) -> dict[str, tuple[float, ...]]:
    """`mean,std` of one channel, or of several all means and then all deviations: `.48,.24`."""
    try:
        values = tuple(float(part) for part in said.split(","))
    except ValueError:
        values = ()
    if not values or len(values) % 2:
        raise Misconfigured(
            f"--normalise takes mean,std such as .48,.24 (of RGB three means, three stds), not {said!r}."
        )
    half = len(values) // 2
    return {"mean": values[:half], "std": values[half:]}


def named_defence(said: str) -> tuple[str, dict[str, Any]]:
    """`name:key=value,key=value`."""
    name, _, settings = said.partition(":")
    return name, options.parsed([each for each in settings.split(",") if each])
