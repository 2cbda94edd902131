"""A dataclass of options is one parameter of a command."""

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from fluoroscope.cli.option_group import grouped


@dataclass(frozen=True)
class Colours:
    front: Annotated[str, typer.Option("--front", "--foreground")] = "black"
    back: Annotated[list[str] | None, typer.Option()] = None


def told(*arguments):
    app, seen = typer.Typer(), []

    @app.command()
    @grouped
    def paint(what: Annotated[str, typer.Argument()], *, colours: Colours, twice: bool = False) -> None:
        """Paint it."""
        seen.append((what, colours, twice))

    ended = CliRunner().invoke(app, arguments)
    return ended, seen


def test_the_options_of_a_group_are_given_together():
    assert told("door")[1] == [("door", Colours(), False)]
    given = told("door", "--foreground", "red", "--back", "blue", "--back", "green", "--twice")[1]
    assert given == [("door", Colours("red", ["blue", "green"]), True)]


def test_help_lists_them_in_the_place_of_the_group():
    said = told("--help")[0].output
    assert "Paint it." in said
    assert said.index("--front") < said.index("--back") < said.index("--twice")


def test_an_option_that_is_in_no_group_is_refused():
    ended, seen = told("door", "--colours", "red")
    assert ended.exit_code == 2
    assert not seen
