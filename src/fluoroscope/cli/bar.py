"""A progress bar with the time left, on stderr."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from fluoroscope.cli import console


@contextmanager
def bar(first: str) -> Iterator[Callable[[float, float, str], None]]:
    """Gives a function of (done, of how much, what is running)."""
    columns = (
        TextColumn("{task.description:<40}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console.err) as progress:
        task = progress.add_task(first, total=None)

        def tell(done: float, total: float, what: str) -> None:
            progress.update(task, completed=done, total=total, description=Text(what).plain)

        yield tell
