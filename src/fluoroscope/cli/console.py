"""What a person sees: progress and messages on stderr, results on stdout, JSON when a machine asks."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from fluoroscope import strict_json

PIPED = None if sys.stdout.isatty() else 120
"""Columns where nobody's terminal sets them: a table in a log should not be cut to 80."""

out = Console(width=PIPED)
err = Console(stderr=True, width=PIPED)


_CONTROLS = {number: f"\\x{number:02x}" for number in (*range(0x20), *range(0x7F, 0xA0)) if chr(number) not in "\n\t"}
_CONTROLS |= {number: f"\\u{number:04x}" for number in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}


def shown(text: str) -> str:
    """The text with what would steer a terminal, or turn the order of letters, written out: files say anything.

    Example:
        >>> print(shown("red: \\x1b[31m"))
        red: \\x1b[31m
    """
    return text.translate(_CONTROLS)


def print_json(content: Mapping[str, Any]) -> None:
    """JSON on stdout, where nothing else goes."""
    print(strict_json.dumps(content), end="")


def print_table(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows of plain values; columns in the order in which they first occur, a mapping as one column a key.

    What is wider than the terminal stands in several tables, each with the number of the row.
    """
    rows = [flat(row) for row in rows]
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = {column: [_cell(row.get(column)) for row in rows] for column in columns}
    out.print(Text(shown(title), "bold"), soft_wrap=True)
    parts = _fitting(cells, out.width)
    for part in parts:
        table = Table()
        if len(parts) > 1:
            table.add_column("row", justify="right", style="dim")
        for i, column in enumerate(part):
            table.add_column(
                Text(shown(column)), justify="left" if i == 0 else "right", min_width=_least(column, cells[column])
            )
        for number in range(len(rows)):  # as text: a class may be called [red]
            first = [str(number + 1)] if len(parts) > 1 else []
            table.add_row(*first, *(Text(cells[column][number]) for column in part))
        out.print(table)


def _least(column: str, texts: Sequence[str]) -> int:
    """Letters that a column needs: its header may be broken between words, a cell after 40."""
    return max([*map(len, column.split()), *(min(len(text), 40) for text in texts)], default=1)


def _fitting(cells: Mapping[str, Sequence[str]], width: int) -> list[list[str]]:
    """The columns in as few groups as leave every header's longest word and every cell whole."""
    groups: list[list[str]] = [[]]
    left = full = width - 1 - 3 - max(len("row"), len(str(max(map(len, cells.values()), default=0))))
    for column, texts in cells.items():
        needed = 3 + _least(column, texts)
        if needed > left and groups[-1]:
            groups.append([])
            left = full
        groups[-1].append(column)
        left -= needed
    return groups


def say(text: str) -> None:
    """A line of plain words on stdout, unbroken: paths are copied from it."""
    out.print(Text(shown(text)), soft_wrap=True)


class RunProgress:
    """A federation's progress as a bar with the time left."""

    def __init__(self, bar: Progress, rounds: int) -> None:
        self._bar = bar
        self._rounds = rounds
        self._task = bar.add_task("loading the images", total=None)

    def begin(self, work: int, done: int) -> None:
        going_on = " (going on with an earlier run)" if done else ""
        # A new task, not an update: the time left is reckoned from this run's speed alone.
        self._bar.remove_task(self._task)
        self._task = self._bar.add_task(f"training{going_on}", total=work - done)

    def advance(self, images: int, what: str) -> None:
        self._bar.update(self._task, advance=images, description=what)

    def round_done(self, server_round: int, accuracy: float | None, loss: float) -> None:
        scored = "" if accuracy is None else f", validation accuracy {accuracy:.3f}"
        self._bar.console.print(f"round {server_round}/{self._rounds}: training loss {loss:.4f}{scored}")


@contextmanager
def run_progress(rounds: int) -> Iterator[RunProgress]:
    """The bar, while a federation of this many rounds runs."""
    columns = (
        TextColumn("{task.description:<28}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("images"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err) as bar:
        yield RunProgress(bar, rounds)


def flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with its inner mappings spread out."""
    spread: dict[str, Any] = {}
    for key, value in row.items():
        spread |= value if isinstance(value, Mapping) else {key.replace("_", " "): value}
    return spread


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.3f}" if isinstance(value, float) else shown(str(value))
