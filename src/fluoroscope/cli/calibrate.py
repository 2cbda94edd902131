"""`fluoroscope calibrate`: the weakest setting of a defence that stops the leak, and its price."""

from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fluoroscope.cli import console, options
from fluoroscope.cli.bar import bar
from fluoroscope.errors import Misconfigured

if TYPE_CHECKING:
    from fluoroscope.calibration.calibrate import Calibrated


def add_to(app: typer.Typer) -> None:
    """Enter the command."""

    @app.command(
        epilog="Examples: fluoroscope calibrate runs/p1 --defence percentile-gaussian   |   fluoroscope calibrate "
        "plan.toml --defence percentile-gaussian --defence clip-and-noise:clip_norm=0.5 --target 'rdlv<=0'"
    )
    def calibrate(
        path: Annotated[Path, typer.Argument(help="A folder of records, or a plan, which is trained first.")],
        defence: Annotated[
            list[str], typer.Option(help="NAME or NAME:key=value,...; several give a front of leak and price.")
        ],
        target: Annotated[str, typer.Option(help="What is safe, of the upper 95 % bound: rdlv<=0, ssim<=0.5.")] = (
            "rdlv<=0"
        ),
        attack: Annotated[
            list[str] | None, typer.Option(help="The attack to be safe from; several: from each. [default: epochwise]")
        ] = None,
        settings: Annotated[list[str] | None, typer.Option("--set", help="key=value of the attack.")] = None,
        client: Annotated[str | None, typer.Option(help="Whose leak; default: the one with the fewest images.")] = (
            None
        ),
        draws: Annotated[int, typer.Option(min=2, help="Defended updates attacked at each setting.")] = 4,
        precision: Annotated[float, typer.Option(help="How near to the least safe setting; 0.1 is 10 %.")] = 0.1,
        seed: options.Seed = 0,
        threads: options.Threads = None,
        as_json: options.Json = False,
        out: Annotated[Path | None, typer.Option("--out", help="Folder of the results.")] = None,
    ) -> None:
        """Find the least noise that is safe: attack recorded updates under it, then train with it.

        A search that was stopped goes on where it was when the same command is given again.
        """
        from fluoroscope import strict_json
        from fluoroscope.attacks import ATTACKS
        from fluoroscope.calibration.calibrate import Settings, check, front, open_bench, without_defence
        from fluoroscope.calibration.calibrate import calibrate as search
        from fluoroscope.calibration.figures import drawn
        from fluoroscope.calibration.knobs import knob_of
        from fluoroscope.calibration.search import questions
        from fluoroscope.calibration.target import parse_target
        from fluoroscope.cli.dotted import changed
        from fluoroscope.report.figures import write

        options.use("cpu", threads)
        wanted = [_named(text) for text in defence]
        names = attack or ["epochwise"]
        chosen = {name: changed(ATTACKS.get(name), options.parsed(settings or []), name) for name in names}
        how = Settings(parse_target(target), chosen, client, draws, precision, seed or 0)
        where = out or (path if path.is_dir() else Path("runs") / path.stem) / "calibration"
        if not path.exists():
            raise Misconfigured(f"{path} is neither a folder of records nor a plan.")
        weaker = 2 if len(wanted) > 1 else 0
        attacks = sum(questions(knob_of(name), precision) for name, _ in wanted)
        with bar("calibrating") as show:
            steps = count()

            def tell(what: str) -> None:
                show(next(steps), 2 + attacks + len(wanted) * (1 + weaker), what)

            bench = open_bench(path, where, tell)
            for name, given in wanted:
                check(bench, name, given)
            tell("the attack without the defence")
            bare = without_defence(bench, how)
            strongest = max(bare.values(), key=lambda leak: leak.rdlv.low)
            found = [search(bench, name, given, how, weaker, tell) for name, given in wanted]
        best = front([point for each in found for point in each.trained])
        result = {
            "target": str(how.target),
            "attacks": names,
            "draws": draws,
            "seed": how.seed,
            "accuracy_without": bench.accuracy,
            "rdlv_without": strongest.rdlv.mean,
            "rdlv_without_low": strongest.rdlv.low,
            "rdlv_without_high": strongest.rdlv.high,
            "defences": [_plain(each) for each in found],
            "front": [point.plain() for point in best],
        }
        where.mkdir(parents=True, exist_ok=True)
        (where / "calibration.json").write_text(strict_json.dumps(result))
        title = f"{path.name}: settings that meet {target} against {' and '.join(names)}, seed {how.seed}"
        png, _ = write(drawn(found, bench.accuracy, title), where / "calibration")
        if as_json:
            console.print_json({**result, "files": {"png": str(png), "findings": str(where / "calibration.json")}})
            return
        for name, leak in bare.items():
            console.say(
                f"Without the defence, {name}: RDLV {leak.rdlv.mean:.3f} ({leak.rdlv.low:.3f} to "
                f"{leak.rdlv.high:.3f}), SSIM {leak.ssim.mean:.3f}, over {leak.reconstructions} reconstructions."
            )
        if not strongest.rdlv.low > 0:
            console.say(
                "note: the attack does not leak here, so what it calls safe says little. Try a stronger one (--attack "
                "span), more iterations, or another --client."
            )
        _tell(found, bench.accuracy, target)
        if len(names) == 1:
            console.say(f"Safe means safe from {names[0]}. Give --attack several times to be safe from each of them.")
        if len(found) > 1:
            console.print_table("not beaten in leak, accuracy and epsilon at once", [point.plain() for point in best])
        console.say(f"png: {png}")
        console.say(f"findings: {where / 'calibration.json'}")


def _tell(found: list["Calibrated"], accuracy: float | None, target: str) -> None:
    for each in found:
        rows = [{"attack": i + 1, **point.plain()} for i, point in enumerate(each.tried)]
        hidden = ("test_accuracy", "epsilon", "defence")
        console.print_table(
            f"{each.defence}: the search", [{k: v for k, v in row.items() if k not in hidden} for row in rows]
        )
        if each.chosen is None:
            strongest = each.tried[0].settings[each.setting]
            console.say(f"{each.defence}: not even {each.setting} = {strongest:g} meets {target}.")
            continue
        point = each.chosen
        cost = (
            ""
            if accuracy is None or point.accuracy is None
            else (f" Test accuracy {point.accuracy:.3f}, {accuracy:.3f} without it.")
        )
        epsilon = (
            " It makes no claim of differential privacy." if point.epsilon is None else f" ε = {point.epsilon:.3g}."
        )
        console.say(
            f"{each.defence}: {each.setting} = {each.least:.3g} meets {target} after {len(each.tried)} attacks."
            f"{cost}{epsilon}"
        )


def _plain(each: "Calibrated") -> dict[str, Any]:
    return {
        "defence": each.defence,
        "setting": each.setting,
        "least": each.least,
        "attacks": len(each.tried),
        "tried": [point.plain() for point in each.tried],
        "trained": [point.plain() for point in each.trained],
    }


def _named(text: str) -> tuple[str, dict[str, Any]]:
    """NAME:key=value,key=value."""
    name, _, rest = text.partition(":")
    return name, options.parsed([part for part in rest.split(",") if part])
