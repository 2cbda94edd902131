"""The program: its commands, and how an error leaves it."""

import os
import sys
import threading
from typing import Annotated

import click
import typer
from rich.text import Text

import fluoroscope
from fluoroscope import process_tuning
from fluoroscope.cli import (
    attack,
    audit,
    calibrate,
    canaries,
    clean,
    compare,
    console,
    data,
    defences,
    demo,
    federate,
    gate,
    init,
    inspect,
    ledger,
    medileak,
    meter,
    nvflare,
    policy,
    records,
    report,
    serve,
    study,
    supernode,
)
from fluoroscope.errors import FluoroscopeError, Misconfigured

STOPPED = 130
"""The exit code of a program that Ctrl-C stopped, as shells have it."""


def program() -> typer.Typer:
    """All commands together."""
    app = typer.Typer(
        name="fluoroscope",
        epilog="Start with: fluoroscope demo. Exit codes: 0 done, 1 a fault of the program, 2 wrong input, 3 refused, "
        "4 failed a gate.",
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        add_completion=False,
    )

    @app.callback()
    def options(
        debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
        version: Annotated[
            bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
        ] = False,
    ) -> None:
        """Measures what a medical federation leaks, and what stops it."""

    # In the order of the help: the main job, what it leaves, then its parts.
    main_job, afterwards = (demo, init, audit), (report, compare, gate, serve, clean)
    parts = (data, federate, records, attack, medileak, inspect, defences, calibrate, canaries, study)
    at_the_door = (meter, policy, ledger, supernode, nvflare)
    for command in (*main_job, *afterwards, *parts, *at_the_door):
        command.add_to(app)
    return app


def _version(asked: bool) -> None:
    if asked:
        print(f"fluoroscope {fluoroscope.__version__}")
        raise typer.Exit


def main() -> None:
    """Entry point of the console script."""
    process_tuning.apply()
    # --debug is accepted anywhere, as people add it to the end of a line that has just failed.
    debug = "--debug" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        if any("\0" in argument for argument in arguments):
            raise Misconfigured("an argument holds the character NUL, which no path or name can have; remove it.")
        code = program()(arguments, standalone_mode=False) or 0
        if code == STOPPED:  # typer has made this of Ctrl-C
            console.err.print("stopped; the same command goes on from what is whole on disk.")
        sys.exit(code)
    except (click.exceptions.Exit, click.exceptions.Abort) as stop:
        sys.exit(getattr(stop, "exit_code", STOPPED))
    except click.ClickException as problem:
        problem.message = console.shown(_brief(problem.message))
        problem.show()
        sys.exit(2)
    except Exception as problem:
        if debug:
            raise
        if isinstance(problem, RuntimeError) and isinstance(problem.__cause__, FluoroscopeError):
            problem = problem.__cause__  # as Flower's simulation wraps it
        text = f"unexpected {type(problem).__name__}: {problem}. --debug shows where."
        if isinstance(problem, FluoroscopeError):
            text = str(problem)
        elif isinstance(problem, OSError):  # a full disk, a folder that may not be written to
            text = f"{problem.filename or 'the disk'}: {problem.strerror or problem}."
        told = console.shown(_brief(text))
        console.err.print(Text("error: ", "bold red") + Text(told, ""), soft_wrap=True)
        _leave(getattr(problem, "exit_code", 2 if isinstance(problem, OSError) else 1))


_LONGEST = 3000
"""Letters of a sentence: a damaged file may have any of its own in it."""


def _brief(text: str) -> str:
    half = _LONGEST // 2
    return text if len(text) <= _LONGEST else f"{text[:half]} ... {text[-half:]}"


def _leave(code: int) -> None:
    """Exit, even if Flower's simulation died and left its server waiting for replies that will not come."""
    waiting = [t for t in threading.enumerate() if t is not threading.main_thread() and not t.daemon]
    if waiting:
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
