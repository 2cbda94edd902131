"""`fluoroscope meter`: what a server could read of one update, from two checkpoints."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fluoroscope.cli import console, options
from fluoroscope.cli.option_group import grouped
from fluoroscope.cli.training_options import TrainingOptions
from fluoroscope.errors import Misconfigured

if TYPE_CHECKING:
    from fluoroscope.site.decision import Decision
    from fluoroscope.site.reading import Metered


def add_to(app: typer.Typer) -> None:
    """Enter the command."""

    @app.command(
        epilog="Example: fluoroscope meter --before global.pt --after client.pt --model myfed.task:Net --images own/ "
        "--public public/ --lr 1e-3. Exit codes: 0 measured, or sent by the policy; 4 withheld by it; 2 wrong input."
    )
    @grouped
    def meter(
        before: Annotated[Path, typer.Option(help="The global model that you were sent: .pt, .safetensors or .npz.")],
        after: Annotated[Path, typer.Option(help="What you would send back.")],
        model: Annotated[
            str, typer.Option(help="What makes the network: package.module:function, or a name such as resnet18.")
        ],
        images: Annotated[
            str, typer.Option(help="The images that you trained on: a folder, or what `data show` takes. They stay.")
        ],
        public: Annotated[
            str | None, typer.Option(help="Public images of the same kind: what an attacker would learn from.")
        ] = None,
        *,
        trained: TrainingOptions,
        policy: Annotated[Path | None, typer.Option(help="Your appetite.toml: it decides, and the exit code.")] = None,
        epsilon: Annotated[
            float | None, typer.Option(help="For --policy: the epsilon that is spent when this update is sent.")
        ] = None,
        show_images: Annotated[
            Path | None, typer.Option(help="Write a PNG of your images beside what a server makes of the update.")
        ] = None,
        seconds: Annotated[
            float | None, typer.Option(min=1, help="That it may take; what does not fit is named. default: 90")
        ] = None,
        seed: options.Seed = 0,
        keep: Annotated[
            Path | None, typer.Option(help="A folder for what is learned; the next update of this model is quicker.")
        ] = None,
        as_json: options.Json = False,
        threads: options.Threads = None,
    ) -> None:
        """Measure what an honest-but-curious server could read of one update: from the two checkpoints of a round.

        Numbers only, unless --show-images is given. Your images stay in this process; attacks run in another.
        """
        # torch takes seconds to import: `--help` should not wait for it.
        from fluoroscope.cli.meter_inputs import read_inputs
        from fluoroscope.site.decision import EXIT_CODES
        from fluoroscope.site.meter import Measuring, measure

        options.use("cpu", threads)
        if epsilon is not None and policy is None:
            raise Misconfigured("--epsilon is for --policy, which alone has a limit for it.")
        decider = None if policy is None else _policy(policy)  # a bad policy is named before anything is measured
        found = read_inputs(before, after, model, images, public, trained, seed or 0)
        with console.err.status("reading") as status:
            measured = measure(
                found.record,
                found.own.batch,
                Measuring(
                    public=found.public,
                    defence=found.defence if found.defence.parts else None,
                    seed=seed or 0,
                    seconds=seconds,
                    kept=keep,
                    on_stage=lambda stage: status.update(stage),
                ),
            )
        decision = None if decider is None else decider.decide(measured.metered, epsilon)
        if show_images is not None and measured.guess is not None:
            from fluoroscope.cli.meter_picture import write_picture

            write_picture(show_images, found.own.batch, measured.guess)
        if as_json:
            decided = {} if decision is None else {"decision": decision.answer, "reasons": list(decision.reasons)}
            console.print_json({**measured.metered.plain(), **decided})
        else:
            _tell(measured.metered, decision)
            if show_images is not None:
                console.say(f"images: {show_images}" if measured.guess is not None else "images: there is no guess.")
        if decision is not None and EXIT_CODES[decision.answer]:
            raise typer.Exit(EXIT_CODES[decision.answer])


def _policy(path: Path) -> Any:  # noqa: ANN401  # a Policy, which is imported when it is asked for
    from fluoroscope.site.policy import read_policy

    return read_policy(path)


def _p_value(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _tell(metered: "Metered", decision: "Decision | None") -> None:
    rows = [
        {
            "leak": reading.leak,
            "reading": "not judged" if reading.value is None else f"{reading.value:.2f}",
            "attack": reading.attack or None,
            "p-value": None if reading.p_value is None else _p_value(reading.p_value),
        }
        for reading in metered.readings
    ]
    console.print_table(f"what a curious server reads of this update ({metered.seconds:.0f} s)", rows)
    for reading in metered.readings:
        console.say(f"{reading.leak}: {reading.sentence}")
    if metered.left_out:
        console.say("left out:")
        for line in metered.left_out:
            console.say(f"  {line}")
    if decision is not None:
        console.say(f"policy: {decision.answer}")
        for reason in decision.reasons:
            console.say(f"  {reason}")
