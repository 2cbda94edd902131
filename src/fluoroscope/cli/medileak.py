"""`fluoroscope medileak`: what a malicious server takes from a federation under secure aggregation."""

from pathlib import Path
from typing import Annotated

import typer

from fluoroscope.cli import console, options
from fluoroscope.cli.bar import bar
from fluoroscope.errors import Misconfigured, Refused

DECODERS = ("subspace", "peeling", "adjacent")
SUMS = {"secagg+": "secagg+", "plain": "plain sum"}


def add_to(app: typer.Typer) -> None:
    """Enter the command."""

    @app.command(
        epilog="Examples: fluoroscope medileak examples/p2.toml   |   fluoroscope medileak examples/p2.toml --guard   "
        "|   fluoroscope medileak plan.toml --victim client-1 --victim client-3 --rounds 4"
    )
    def medileak(
        plan: Annotated[Path, typer.Argument(help="A plan (TOML); its partition must leave auxiliary images.")],
        guard: Annotated[bool, typer.Option(help="Let every client inspect a model before training it.")] = False,
        consistency: Annotated[
            bool, typer.Option(help="Mix the model's digest into the clients' keys; --guard does it, too.")
        ] = False,
        victim: Annotated[
            list[str] | None, typer.Option(help="A client; several are taken in turn. Default: the first.")
        ] = None,
        rounds: Annotated[int, typer.Option(min=1, help="One victim a round.")] = 1,
        neurons: Annotated[
            int | None, typer.Option(min=16, help="Of the added layer; default: twice the victim's images.")
        ] = None,
        decoder: Annotated[str, typer.Option(help="subspace, peeling, or P2's own: adjacent.")] = "subspace",
        aggregation: Annotated[str, typer.Option(help="secagg+, or plain: the exact sum.")] = "secagg+",
        seed: options.Seed = None,
        as_json: options.Json = False,
        out: Annotated[Path | None, typer.Option("--out", help="Folder of the results.")] = None,
        threads: options.Threads = None,
    ) -> None:
        """Play P2's malicious server: crafted models, and images read from the securely summed updates.

        With --guard the clients refuse such models: exit code 3, and nothing leaks. With --consistency they train them,
        and the sum over different models is noise.
        """
        from fluoroscope.attacks.imprint import Adjacent, Peeling, Subspace
        from fluoroscope.cli.medileak_files import write_outcome
        from fluoroscope.federation.plan import read_plan
        from fluoroscope.federation.task import load_task
        from fluoroscope.scenarios.malicious_server import (
            MaliciousServer,
            chosen_victims,
            row,
            run_malicious_rounds,
        )

        options.use("cpu", threads)
        if consistency and aggregation != "secagg+":
            raise Misconfigured("--consistency changes the keys of secure aggregation: leave out --aggregation plain.")
        for what, value, known in (("decoder", decoder, DECODERS), ("aggregation", aggregation, tuple(SUMS))):
            if value not in known:
                raise Misconfigured(f"there is no {what} {value!r}. Known: {', '.join(known)}.")
        read = read_plan(plan)
        read = read if seed is None else read.model_copy(update={"seed": seed})
        task = load_task(read)
        victims = chosen_victims(task, victim or [])
        training = read.training
        held = len(task.clients[victims[0]].train)
        server = MaliciousServer(
            victims,
            rounds,
            neurons,
            Subspace() if decoder == "subspace" else Peeling() if decoder == "peeling" else Adjacent(),
            "secagg+" if aggregation == "secagg+" else "plain sum",
            steady=(task.clients[victims[0]].batch_size or training.batch_size) < held,
        )
        with bar("medileak") as tell:
            outcome = run_malicious_rounds(task, server, guard, read.seed, tell, consistency)
        where = out or Path("runs") / f"{plan.stem}-medileak"
        title = f"{plan.name}: recovered under {aggregation}, lr {training.lr:g}, {training.epochs} local epochs"
        files = write_outcome(outcome, task, title, where)
        if as_json:
            console.print_json({**outcome.plain(), "files": {kind: str(path) for kind, path in files.items()}})
        elif outcome.recoveries:
            console.print_table("what the server took", [row(each) for each in outcome.recoveries])
        said = {verdict.summary: name for name, verdict in reversed(outcome.verdicts.items())}
        for summary, name in said.items() if not as_json else ():  # clients with the same reasons speak once
            console.say(f"{name} {summary}")
        for kind, path in files.items() if not as_json else ():
            console.say(f"{kind}: {path}")
        if outcome.refused:
            raise Refused(outcome.refused)
