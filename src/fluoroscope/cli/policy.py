"""`fluoroscope policy`: what a site lets pass, written down and checked."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fluoroscope.cli import console, options
from fluoroscope.cli.group import group
from fluoroscope.errors import BadInput

if TYPE_CHECKING:
    from fluoroscope.site.subject import Subject

APPETITE = Path("appetite.toml")


def add_to(app: typer.Typer) -> None:
    """Enter the commands."""
    policy = group(app, "policy", "What this site lets pass: write it down, and check it.")

    @policy.command(epilog="Example: fluoroscope policy init appetite.toml")
    def init(path: Annotated[Path, typer.Argument(help="The file to write.")] = APPETITE) -> None:
        """Write a policy with comments, which withholds what cannot be judged: change it, then check it."""
        from fluoroscope.atomic_write import write_new
        from fluoroscope.site.policy import template

        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_new(path, template().encode())
        except FileExistsError as problem:
            raise BadInput(f"{path} is there already; choose another name.") from problem
        except OSError as problem:
            raise BadInput(f"{path} cannot be written: {problem.strerror}.") from problem
        console.say(f"policy: {path}")
        console.say(f"next: fluoroscope policy check {path}")

    @policy.command(
        epilog="Example: fluoroscope policy check appetite.toml. Exit codes: 0 it can be used, 2 something is wrong."
    )
    def check(
        path: Annotated[Path, typer.Argument(help="The policy's file.")] = APPETITE,
        as_json: options.Json = False,
    ) -> None:
        """Say in plain words what a policy does, and load what it names: images, model, public images, defences."""
        from fluoroscope.site.opening import open_site
        from fluoroscope.site.policy_words import gaps_in_words, rules_in_words

        control = open_site(path)
        rules, known = rules_in_words(control.policy), _loaded(control.subject, control.policy.site.transposed)
        gaps = gaps_in_words(control.policy, control.subject)
        if as_json:
            ledger = str(control.ledger.path)
            console.print_json({"policy": str(path), "rules": rules, "known": known, "gaps": gaps, "ledger": ledger})
            return
        for line in (*rules, *known, *(f"note: {gap}" for gap in gaps)):
            console.say(line)
        console.say(f"ledger: {control.ledger.path}")


def _loaded(subject: "Subject", transposed: bool) -> list[str]:
    """What was found where the policy says."""
    from fluoroscope.site.policy_words import training_in_words
    from fluoroscope.types import blueprint

    said = []
    if subject.own is not None:
        own = subject.own()
        channels, height, width = own.images.shape[1:]
        swapped = ", rows and columns swapped" if transposed else ""
        patients = len(set(own.patients))
        said.append(f"images: {len(own)} of {channels} x {height} x {width}, of {patients} patients{swapped}.")
    if subject.network is not None:
        values = sum(value.numel() for value in blueprint(subject.network).parameters())
        said.append(f"model: {subject.network.name}, {values} parameters, {subject.network.outputs} outputs.")
    if subject.training is not None:
        said.append(training_in_words(subject.training))
    if subject.public is not None:
        said.append(f"public images: {len(subject.public())}.")
    if subject.defence.parts:
        said.append(f"defence: {', '.join(type(part).__name__ for part in subject.defence.parts)}.")
    return said
