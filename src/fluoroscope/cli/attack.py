"""`fluoroscope attack`: what one recorded update gives away."""

import shutil
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fluoroscope.cli import console, options
from fluoroscope.cli.bar import bar
from fluoroscope.errors import Misconfigured, Unsupported

if TYPE_CHECKING:
    from fluoroscope.scenarios.recorded_update import Attacked
    from fluoroscope.scenarios.rehearsed import Rehearsed
    from fluoroscope.types import Capability

Out = Annotated[
    Path | None, typer.Option("--out", help="Where to write; default: RECORDS/attacks/... A killed attack resumes.")
]


def add_to(app: typer.Typer) -> None:
    """Enter the command."""

    @app.command(
        epilog="Examples: fluoroscope attack runs/p1 --attack bn-only   |   fluoroscope attack runs/p1 --attack "
        "inverting-gradients --client client-5 --round 1 --grant labels --set budget.iterations=100"
    )
    def attack(
        records: Annotated[Path, typer.Argument(help="A folder that `federate --out` or `demo` wrote.")],
        name: Annotated[
            str,
            typer.Option(
                "--attack",
                help="Such as bn-only, epochwise, span; auto: the best of all, by rehearsal on public images.",
            ),
        ],
        settings: Annotated[
            list[str] | None, typer.Option("--set", help="Of the attack, dotted: budget.iterations=100")
        ] = None,
        server_round: Annotated[int | None, typer.Option("--round", help="Default: the last recorded.")] = None,
        client: Annotated[str | None, typer.Option(help="Default: the one with the fewest images.")] = None,
        grant: Annotated[
            list[str] | None, typer.Option(help="Let the attacker know more than its position does: labels")
        ] = None,
        public: Annotated[
            str | None,
            typer.Option(help="The attacker's public images, such as folder:PATH. default: auxiliary ones"),
        ] = None,
        seed: options.Seed = 0,
        as_json: options.Json = False,
        out: Out = None,
        device: options.Device = "cpu",
        threads: options.Threads = None,
    ) -> None:
        """Attack a recorded update as a curious server would, and score the guess where the truth is at hand.

        The attacker's public images are the partition's auxiliary ones, or those of --public; its prior is their mean.
        """
        # torch takes seconds to import: `--help` should not wait for it.
        from fluoroscope.attacks import ATTACKS
        from fluoroscope.cli.attack_files import write_attacked
        from fluoroscope.cli.dotted import changed
        from fluoroscope.scenarios.auto_attacks import AUTO, candidates
        from fluoroscope.scenarios.recorded_update import attack_record, gather, rehearse_for, with_public

        options.use(device, threads)
        granted = [_capability(text) for text in grant or []]
        if name == AUTO and settings:
            raise Misconfigured("--set changes one attack, and auto chooses among all: name the attack.")
        every = (
            candidates() if name == AUTO else {name: changed(ATTACKS.get(name), options.parsed(settings or []), name)}
        )
        evidence = gather(records, server_round, client)
        if public is not None:
            evidence = with_public(evidence, public, seed or 0)
        rehearsal = None
        if name == AUTO:
            with bar("rehearsing") as tell:
                rehearsal = rehearse_for(
                    evidence, granted, every, seed or 0, lambda i, n: tell(i, n, f"{i} of {n} attacks rehearsed")
                )
            if rehearsal.best is None:
                raise Unsupported(f"no attack can be played: {rehearsal.why_none()}.")
            name = rehearsal.best
        chosen = every[name]
        where = out or records / "attacks" / f"{name}-{evidence.client}-round-{evidence.record.round}-seed-{seed or 0}"
        with bar(f"{name} on {evidence.client}") as tell:
            attacked = attack_record(
                name,
                chosen,
                evidence,
                granted,
                seed or 0,
                device,
                where / "checkpoint",
                lambda i, n: tell(i + 1, n, f"{name} on {evidence.client}"),
            )
        files = write_attacked(attacked, where)
        shutil.rmtree(where / "checkpoint", ignore_errors=True)
        if as_json:
            said = {} if rehearsal is None else {"rehearsal": [_plain(row) for row in rehearsal.rows]}
            console.print_json({**attacked.plain(), **said, "files": {kind: str(path) for kind, path in files.items()}})
            return
        if rehearsal is not None:
            rows = [_plain(row) for row in rehearsal.rows]
            console.print_table(f"rehearsed on {rehearsal.victims} simulated clients of public images", rows)
        _tell(attacked)
        if attacked.guess.nothing and rehearsal is None:
            console.say("Another attack may find something: `--attack auto` tries all that apply.")
        for kind in ("png", "reconstruction", "findings"):
            console.say(f"{kind}: {files[kind]}")


def _plain(row: "Rehearsed") -> dict[str, Any]:
    interval, told = row.leak, row.told_apart
    return {
        "attack": row.name,
        "leak": None if interval is None else interval.mean,
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
        "told_apart": None if told is None else told.mean,
        "p_value": row.p_value,
        "seconds": row.seconds,
        "remark": row.reason,
    }


def _tell(attacked: "Attacked") -> None:
    facts = attacked.plain()
    known = [{"the attacker knows": what, "": "yes" if has else "no"} for what, has in facts["known"].items()]
    console.print_table(
        f"{facts['attack']} on {facts['client']}, round {facts['round']}: {facts['images']} images, "
        f"{facts['seconds']:.1f} s",
        known,
    )
    if facts["nothing"]:
        console.say(f"found nothing, so the guess is the prior: {facts['nothing']}")
        return
    restarts = [{"restart": i + 1, "objective": f"{value:.6g}"} for i, value in enumerate(facts["restarts"])]
    console.print_table("the attack's own objective", restarts)
    if attacked.scores:
        rows: list[dict[str, Any]] = [
            {"image": i + 1, **{k: v for k, v in image.items() if k not in ("reconstruction", "original")}}
            for i, image in enumerate(facts["scores"])
        ]
        console.print_table("against the originals (matched by SSIM)", rows)
    if attacked.evidence.why_not:
        console.say(f"note: {attacked.evidence.why_not}")


def _capability(text: str) -> "Capability":
    from fluoroscope.types import Capability

    known = [capability.value for capability in Capability]
    if text not in known:
        near = get_close_matches(text, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise Misconfigured(f"there is no capability {text!r}{hint} Known: {', '.join(known)}.")
    return Capability(text)
