"""Options that say what was trained and how, for commands that are given checkpoints and no plan."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from fluoroscope.cli import options
from fluoroscope.errors import Misconfigured

_OF_TRAINING = ("optimiser", "lr", "momentum", "weight_decay", "epochs", "steps", "batch_size", "loss")
"""Keys of a plan's [training] that have an option of their own, by the same name."""


@dataclass(frozen=True)
class TrainingOptions:
    """What was trained and how, as it is said on the command line."""

    model_argument: Annotated[
        list[str] | None, typer.Option(help="What the function is called with: classes=2. Repeatable.")
    ] = None
    size: Annotated[int | None, typer.Option(help="Pixels that images are brought to. default: theirs")] = None
    classes: Annotated[
        str | None,
        typer.Option(help="All classes in the order of the outputs: normal,pneumonia. default: sorted by name"),
    ] = None
    optimiser: Annotated[
        str | None, typer.Option("--optimiser", "--optimizer", help="sgd, adam, adamw or gradient. default: sgd")
    ] = None
    lr: Annotated[float | None, typer.Option(help="The learning rate. default: 0.01")] = None
    momentum: Annotated[float | None, typer.Option(help="Of sgd.")] = None
    weight_decay: Annotated[float | None, typer.Option(help="default: 0; adamw: 0.01")] = None
    epochs: Annotated[int | None, typer.Option(help="In the round. default: 1")] = None
    steps: Annotated[int | None, typer.Option(help="In the place of epochs.")] = None
    batch_size: Annotated[int | None, typer.Option(help="default: 8")] = None
    normalise: Annotated[
        str | None, typer.Option("--normalise", "--normalize", help="mean,std of pixels in [0, 1]: .48,.24")
    ] = None
    loss: Annotated[str | None, typer.Option(help="cross-entropy, multi-label or package.module:function.")] = None
    training: Annotated[
        list[str] | None, typer.Option(help="Any other key of a plan's table training: clip_norm=1.0. Repeatable.")
    ] = None
    defence: Annotated[
        list[str] | None,
        typer.Option(help="What stood before the update: NAME:key=value,key=value. Repeatable, in its order."),
    ] = None

    @property
    def arguments(self) -> dict[str, Any]:
        """Of the function that makes the network."""
        return options.parsed(self.model_argument or [])

    @property
    def class_names(self) -> list[str] | None:
        return None if self.classes is None else [name.strip() for name in self.classes.split(",")]

    @property
    def defences(self) -> list[tuple[str, dict[str, Any]]]:
        """The name and the settings of each."""
        return [named_defence(each) for each in self.defence or []]

    def plain_training(self) -> dict[str, Any]:
        """Keys of a plan's [training]: those with an option of their own, and those of --training."""
        said = options.parsed(self.training or [])
        own = {key: getattr(self, key) for key in _OF_TRAINING}
        own["normalisation"] = None if self.normalise is None else normalisation(self.normalise)
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
