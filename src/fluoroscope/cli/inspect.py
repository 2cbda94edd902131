"""`fluoroscope inspect`: whether a model that came from a server should be trained."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fluoroscope.cli import console, options
from fluoroscope.errors import Refused

if TYPE_CHECKING:
    from torch import Tensor

    from fluoroscope.defences.guard import Verdict


def add_to(app: typer.Typer) -> None:
    """Enter the command."""

    @app.command(
        epilog="Examples: fluoroscope inspect round-3.safetensors --agreed resnet18 --images my-images/   |   "
        "fluoroscope inspect model.pt --agreed last-round.pt --digest 3fa0c1d2 --json. "
        "Exit codes: 0 accepted (or not judged, without --strict), 3 refused, 2 not readable."
    )
    def inspect(
        model: Annotated[
            Path, typer.Argument(help="The state dict that you were sent: .safetensors, .pt, .pth or .npz.")
        ],
        agreed: Annotated[
            str | None,
            typer.Option(help="What was agreed on: a file with an earlier state dict, or a name such as resnet18."),
        ] = None,
        images: Annotated[
            str | None,
            typer.Option(help="Your own images: a folder, or any source that `data show` takes. They stay here."),
        ] = None,
        digest: Annotated[
            list[str] | None,
            typer.Option(help="What another client was sent: the digest that this command prints there. Repeatable."),
        ] = None,
        strict: Annotated[
            bool,
            typer.Option("--strict", help="Exit with 3 also where the model could not be run, and was not judged."),
        ] = False,
        as_json: options.Json = False,
        threads: options.Threads = None,
    ) -> None:
        """Look at a model before training it, and refuse one that was crafted to read images out of the update.

        Without --agreed, layers that were added are found by what they do. Without --images, stand-ins are used.
        """
        # torch takes seconds to import: `--help` should not wait for it.
        from fluoroscope.defences.guard.inspect import inspect as judge
        from fluoroscope.models.recognition import agreed_model, recognised
        from fluoroscope.models.state_files import read_state

        options.use("cpu", threads)
        state = read_state(model)
        known = recognised(state)
        own = None if images is None else _images(images, known.channels, known.size)
        verdict = judge(
            known.network or known.state, agreed_model(agreed, known) if agreed else None, own, digest or ()
        )
        if as_json:
            console.print_json({"model": str(model), "recognised": known.name, **verdict.plain()})
        else:
            _tell(model, known.name, verdict)
        if verdict.refused or (strict and not verdict.ran):
            raise typer.Exit(Refused.exit_code)


def _images(source: str, channels: int | None, size: int | None) -> "Tensor":
    from fluoroscope.data import Request, load
    from fluoroscope.defences.guard.inspect import MOST_IMAGES

    return load(source, Request(size, channels, MOST_IMAGES)).batch.images


def _tell(model: Path, name: str | None, verdict: "Verdict") -> None:
    what = name or "an architecture that is not registered here"
    how = "run on images" if verdict.ran else "not run"
    console.say(f"{model}: {what}, {how}, {verdict.seconds:.2f} s")
    console.say(f"digest: {verdict.digest}")
    for reason in verdict.reasons:
        mark = "REFUSED" if reason.severity == "refuse" else "note"
        console.say(f"{mark} ({reason.check}): {reason.sentence}")
    if verdict.refused:
        console.say("refused: do not train this model.")
    elif verdict.ran:
        console.say("accepted: nothing looks crafted.")
    else:
        console.say("not judged: its weights show nothing, but what it does could not be tried.")
