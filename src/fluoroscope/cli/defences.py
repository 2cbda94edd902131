"""`fluoroscope defences`: which there are, what each promises, and those of other people's configuration."""

from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fluoroscope.cli import console, options
from fluoroscope.cli.group import group

if TYPE_CHECKING:
    from fluoroscope.types import PrivacyClaim


def add_to(app: typer.Typer) -> None:
    """Enter the commands."""
    defences = group(app, "defences", "What defences promise; read other people's.")

    @defences.command("list")
    def show(as_json: options.Json = False) -> None:
        """Every defence by its name in a plan, with its settings and their defaults."""
        from fluoroscope.defences import DEFENCES

        rows = [{"defence": name, "settings": _settings(DEFENCES.get(name))} for name in DEFENCES]
        if as_json:
            console.print_json({"defences": rows})
            return
        console.print_table(f"{len(rows)} defences", rows)

    @defences.command(
        epilog="Examples: fluoroscope defences claim svt-privacy --weights 7000000   |   fluoroscope defences claim "
        "local-dp:clip_norm=1,sensitivity=1,epsilon=1 --rounds 100"
    )
    def claim(
        names: Annotated[list[str], typer.Argument(help="Names as in a plan; settings after a colon, key=value,...")],
        rounds: Annotated[int, typer.Option(min=1, help="In which the client takes part.")] = 20,
        weights: Annotated[
            int, typer.Option(min=1, help="Numbers that leave the client per round, buffers too.")
        ] = 10_000_000,
        clients: Annotated[int, typer.Option(min=1, help="Per round, each with as many images.")] = 10,
        images: Annotated[int, typer.Option(min=1, help="Of the client.")] = 100,
        batch_size: Annotated[int, typer.Option(min=1, help="Images per training step.")] = 10,
        as_json: options.Json = False,
    ) -> None:
        """Count a defence's epsilon for one round and for all, by what its noise is worth, whatever it is set by."""
        from fluoroscope.defences import Participation
        from fluoroscope.federation.settings import build_defences
        from fluoroscope.types import LocalTraining, Sgd

        training = LocalTraining(Sgd(0.1), images=images, batch_size=batch_size)
        counted: dict[str, tuple[PrivacyClaim, PrivacyClaim]] = {}
        for name in names:
            part, _, rest = name.partition(":")
            chain = build_defences([(part, options.parsed(rest.split(",") if rest else []))])
            parts = [Participation(training, n, clients, 1 / clients, values=weights) for n in (1, rounds)]
            counted[name] = (chain.claim(parts[0]), chain.claim(parts[1]))
        if as_json:
            claims = [
                {"defence": name, "one": asdict(one), "all": asdict(all_)} for name, (one, all_) in counted.items()
            ]
            console.print_json({"rounds": rounds, "claims": claims})
            return
        for name, (one, all_) in counted.items():
            row: dict[str, Any] = {"one round": _epsilon(one), f"{rounds} rounds": _epsilon(all_)}
            if all_.epsilon is not None:
                row |= {"delta": f"{all_.delta:g}", "unit": all_.unit, "relation": all_.relation, "trust": all_.trust}
            console.print_table(name, [row])
            console.say(f"{all_.statement}.")

    @defences.command(
        "import", epilog="Example: fluoroscope defences import startup/local/privacy.json --scope private >> plan.toml"
    )
    def read(
        file: Annotated[Path, typer.Argument(help="NVFlare's privacy.json, or a job's config_fed_client.json.")],
        scope: Annotated[str | None, typer.Option(help="Of a privacy.json with several; else its default.")] = None,
    ) -> None:
        """Print a file's filters on what leaves the client as tables, to paste into a plan."""
        from fluoroscope.defences.chain import chain
        from fluoroscope.defences.imported import plan_tables, read_privacy_json

        found = read_privacy_json(file, scope)
        chain(*found)  # what no plan could hold is said now
        print(
            plan_tables(found) if found else f"# {file} has no filter on the updates that leave the client.\n", end=""
        )


def _settings(kind: type[Any]) -> str:
    told = [f.name if f.default is MISSING else f"{f.name}={f.default}" for f in fields(kind)]
    return ", ".join(told) or "none"


def _epsilon(claim: "PrivacyClaim") -> str:
    if claim.epsilon is None:
        return "none"
    return f"{claim.epsilon:.3g}" if claim.epsilon < 1000 else f"{claim.epsilon:,.0f}"
