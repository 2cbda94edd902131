"""`fluoroscope calibrate`: the weakest setting of a defence that stops the leak, and its price."""

from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fluoroscope.cli import console, options
from fluoroscope.cli.bar import bar
from fluoroscope.errors import Misconfigured

if TYPE_CHECKING:
    from fluoroscope.calibration.attackers import Attackers
    from fluoroscope.calibration.candidates import Candidate
    from fluoroscope.calibration.measured import Measured
    from fluoroscope.calibration.points import Calibrated
    from fluoroscope.calibration.stage import Stage


_KEPT = ("tried", "rehearsed", "with", "without")


def add_to(app: typer.Typer) -> None:
    """Enter the command."""

    @app.command(
        epilog="Examples: fluoroscope calibrate runs/p1 --defence percentile-gaussian   |   fluoroscope calibrate "
        "plan.toml --defence fed-bn+percentile-gaussian --defence clip-and-noise:clip_norm=0.5 --target 'leak<=.05'"
    )
    def calibrate(
        path: Annotated[Path, typer.Argument(help="A folder of records, or a plan, which is trained first.")],
        defence: Annotated[
            list[str],
            typer.Option(help="NAME or NAME:key=value,..., several joined by +; given several times: a front."),
        ],
        target: Annotated[
            str,
            typer.Option(help="What is safe, of the upper 95 % bound: leak<=.02, told-apart<=2x, rdlv<=0, ssim<=0.5."),
        ] = "holds",
        attack: Annotated[
            list[str] | None,
            typer.Option(help="Attacks to search by in the place of all that apply. default: auto"),
        ] = None,
        settings: Annotated[list[str] | None, typer.Option("--set", help="key=value of a named attack.")] = None,
        client: Annotated[str | None, typer.Option(help="Whose leak; default: the one with the fewest images.")] = (
            None
        ),
        on: Annotated[
            str,
            typer.Option(help="Whom settings are tried on: public (simulated clients) or records (private updates)."),
        ] = "public",
        public: Annotated[
            str | None, typer.Option(help="Public images, such as folder:PATH. default: the plan's auxiliary ones")
        ] = None,
        victims: Annotated[int, typer.Option(min=4, help="Simulated clients at each setting.")] = 48,
        draws: Annotated[int, typer.Option(min=2, help="With --on records: defended updates at each setting.")] = 4,
        precision: Annotated[float, typer.Option(help="How near to the least safe setting; 0.5 is 50 %.")] = 0.5,
        margin: Annotated[
            float, typer.Option(min=1, help="How many times as strong as the weakest setting that nobody reads.")
        ] = 2.0,
        seed: options.Seed = 0,
        threads: options.Threads = None,
        as_json: options.Json = False,
        out: Annotated[Path | None, typer.Option("--out", help="Folder of the results.")] = None,
    ) -> None:
        """Find the least noise that is safe: attack simulated clients under it, then train with it.

        Settings are screened by the attackers that learn the defence, the weakest that nobody reads on other victims
        too. It is the edge for these attackers and images; with --margin it meets all that apply, the best of whom are
        chosen by rehearsal at that setting.
        A search that was stopped goes on where it was when the same command is given again.
        """
        from fluoroscope import strict_json
        from fluoroscope.atomic_write import make_run_folder, write_text
        from fluoroscope.calibration.calibrate import calibrate as search
        from fluoroscope.calibration.calibrate import check, of_patients, open_bench, stage_for, without_defence
        from fluoroscope.calibration.figures import drawn
        from fluoroscope.calibration.points import Settings, front
        from fluoroscope.calibration.search import questions
        from fluoroscope.calibration.target import parse_target
        from fluoroscope.progress_file import progress_in
        from fluoroscope.report.figures import write
        from fluoroscope.runs.manifest import forget_manifest, write_manifest

        options.use("cpu", threads)
        if on not in ("public", "records"):
            raise Misconfigured(f"--on takes public or records, not {on!r}.")
        wanted = [_candidate(text) for text in defence]
        attackers = _attackers(attack or ["auto"], settings or [])
        how = Settings(
            parse_target(target), attackers, client, victims, draws if on == "records" else None, public, precision,
            seed or 0, margin,
        )  # fmt: skip
        where = out or (path if path.is_dir() else Path("runs") / path.stem) / "calibration"
        if not path.exists():
            raise Misconfigured(f"{path} is neither a folder of records nor a plan.")
        weaker = 2 if len(wanted) > 1 else 0
        asked = sum(1 if each.knob is None else questions(each.knob, precision) for each in wanted)
        forget_manifest(where)
        make_run_folder(where, _KEPT, private=of_patients(path))
        with bar("calibrating") as show, progress_in(where, "calibration") as keep:
            steps = count()

            def tell(what: str) -> None:
                done, of = next(steps), 2 + asked + len(wanted) * (1 + weaker)
                show(done, of, what)
                keep(done, of, what)

            bench = open_bench(path, where, tell)
            for each in wanted:
                check(bench, each)
            stage = stage_for(bench, how)
            tell("the attackers without the defence")
            bare = without_defence(bench, stage, how)
            seen = [each for each in wanted if each.not_seen is None] if bare.leaks else []
            found = [search(bench, stage, each, bare, how, weaker, tell) for each in seen]
        best = front([point for each in found for point in each.trained])
        result = {
            "target": str(how.target),
            "attacks": list(attackers.attacks),
            "chosen_by_rehearsal": attackers.rehearsed,
            "looked_at": stage.looked_at,
            "victims": stage.victims,
            "seed": how.seed,
            "accuracy_without": bench.accuracy,
            "without": bare.plain(),
            "leaks_without": bare.leaks,
            "defences": [_plain(each) for each in found],
            "not_attacked": {each.name: each.not_seen for each in wanted if each.not_seen is not None},
            "front": [point.plain() for point in best],
        }
        write_text(where / "calibration.json", strict_json.dumps(result))
        files = {"findings": str(where / "calibration.json")}
        if found:
            title = f"{path.name}: settings that meet {target}, seed {how.seed}"
            files["png"] = str(write(drawn(found, bench.accuracy, title), where / "calibration")[0])
        write_manifest(where, "calibrate")
        if as_json:
            console.print_json({**result, "files": files})
            return
        _tell_bare(bare, stage)
        for each in wanted:
            if each.not_seen is not None:
                console.say(f"{each.name}: not attacked. {each.not_seen}.")
        _tell(found, bench.accuracy, target)
        if len(found) > 1:
            console.print_table("not beaten in leak, accuracy and epsilon at once", [point.plain() for point in best])
        for kind, file in files.items():
            console.say(f"{kind}: {file}")


def _tell_bare(bare: "Measured", stage: "Stage") -> None:
    console.say(f"Tried on {stage.victims} {stage.looked_at}.")
    for name, said in bare.rehearsed.items():
        console.say(f"  rehearsal, {name}: {said}")
    for each in bare.played:
        console.say(
            f"Without the defence, {each.attack}: leak {each.leak.mean:.3f} ({each.leak.low:.3f} to "
            f"{each.leak.high:.3f}), told apart {each.told_apart.mean:.2f} where chance gives {each.chance:.2f}, "
            f"p = {each.p_value:.3f}."
        )
    if not bare.leaks:
        console.say(
            "Nothing leaks beyond chance without the defence, as far as these attackers can read: there is nothing to "
            "calibrate, and nothing was shown to be safe. Give more public images (--public), or another --client."
        )


def _tell(found: list["Calibrated"], accuracy: float | None, target: str) -> None:
    shown = ("leak", "leak_low", "leak_high", "p_value", "line_up", "by", "safe", "why_not")
    for each in found:
        name, setting = each.candidate.name, each.setting
        columns = (*([] if setting is None else [setting]), *shown)
        rows = [{key: row[key] for key in columns if key in row} for row in (point.plain() for point in each.tried)]
        console.print_table(f"{name}: the search", rows)
        point = each.chosen
        if point is None:
            console.say(f"{name}: {_why_none(each, target)}")
            continue
        cost = (
            ""
            if accuracy is None or point.accuracy is None
            else (f" Test accuracy {point.accuracy:.3f}, {accuracy:.3f} without it.")
        )
        epsilon = (
            " It makes no claim of differential privacy." if point.epsilon is None else f" ε = {point.epsilon:.3g}."
        )
        at = "it" if setting is None else f"{setting} = {each.least:.3g}"
        console.say(f"{name}: {at} meets {target} after {len(each.tried)} settings{_edge(each)}.{cost}{epsilon}")


def _edge(each: "Calibrated") -> str:
    if each.unread is None or each.unread == each.least:
        return ""
    at_edge = each.trained[-2].accuracy
    cost = "" if at_edge is None else f" (test accuracy {at_edge:.3f})"
    return f", with a margin: {each.unread:.3g} is the weakest that nobody read{cost}"


def _why_none(each: "Calibrated", target: str) -> str:
    if each.confirmed is not None and not each.confirmed.safe:
        return (
            f"{each.setting} = {each.least:.3g} meets {target} against the attacks that were named, and is not safe: "
            f"{each.confirmed.why_not}. Leave --attack out to search against all."
        )
    strongest = each.tried[0]
    what = "it" if each.setting is None else f"not even {each.setting} = {strongest.plain()[each.setting]:g}"
    return f"{what} {'does not meet' if each.setting is None else 'meets'} {target}: {strongest.why_not}."


def _plain(each: "Calibrated") -> dict[str, Any]:
    return {
        "defence": each.candidate.name,
        "setting": each.setting,
        "least": each.least,
        "unread": each.unread,
        "safe": each.chosen is not None,
        "asked": len(each.tried),
        "tried": [{**point.plain(), "rehearsed": dict(point.found.rehearsed)} for point in each.tried],
        "trained": [point.plain() for point in each.trained],
        "confirmed": None if each.confirmed is None else each.confirmed.plain(),
    }


def _attackers(names: list[str], settings: list[str]) -> "Attackers":
    from fluoroscope.attacks import ATTACKS
    from fluoroscope.calibration.attackers import Attackers
    from fluoroscope.cli.dotted import changed
    from fluoroscope.scenarios.auto_attacks import AUTO, candidates

    if AUTO not in names:
        return Attackers({name: changed(ATTACKS.get(name), options.parsed(settings), name) for name in names}, False)
    if settings or len(names) > 1:
        raise Misconfigured("auto is all attacks as they are: name the attacks to search by, or leave --set out.")
    return Attackers(candidates())


def _candidate(text: str) -> "Candidate":
    """NAME:key=value,key=value+NAME."""
    from fluoroscope.calibration.candidates import candidate, split_names

    parts = split_names(text)
    given = {name: options.parsed([part for part in rest.split(",") if part]) for name, rest in parts}
    return candidate("+".join(name for name, _ in parts), given)
