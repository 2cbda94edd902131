"""What the guard remembers from round to round: numbers of accepted models, in a file beside the ledger."""

from pathlib import Path

from fluoroscope import atomic_write
from fluoroscope.defences.guard import History


def history_path(ledger: Path) -> Path:
    """Beside the ledger, under its name."""
    return ledger.with_name(f"{ledger.name}.guard.json")


def read_history(ledger: Path) -> History:
    """The rounds so far; none where there is no file.

    Raises:
        BadInput: the file is damaged.
    """
    path = history_path(ledger)
    return History.from_json(path.read_bytes()) if path.is_file() else History()


def write_history(ledger: Path, history: History) -> None:
    """Whole or not at all."""
    if history.rounds:
        atomic_write.write_text(history_path(ledger), history.to_json())
