"""What the studies measured, as small tables: one per study, from its findings."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fluoroscope.studies.claims.cost import costs
from fluoroscope.studies.claims.judge import command_of, findings
from fluoroscope.studies.study import STUDIES
from fluoroscope.studies.table import MISSING

_HEAD = """# What the studies measured

Made by `fluoroscope study claims {folder} --tables` from the findings of finished studies; no number is written by
hand. An interval is a 95 % interval, ± a standard deviation over seeds; "paper" is what the paper prints for the row.
What each study compares: [studies.md](studies.md); the images: [data-sets.md](data-sets.md); what it says to the
papers' claims: [claims.md](claims.md).
"""
_LEFT_OUT = ("seconds", "paper", "curves", "failed", "form", "iterations")
Row = Mapping[str, Any]


def tables(runs: Path, folder: str = "RUNS") -> str:
    """All that was run, in the order of `study list`."""
    parts = [_HEAD.format(folder=folder)]
    missing = []
    for name in STUDIES:
        found = findings(runs, name)
        if found is None:
            missing.append(name)
        else:
            parts.append(_section(name, found))
    parts.append(_taken(runs))
    if missing:
        parts.append(f"\n## No findings in this folder\n\n{', '.join(f'`{name}`' for name in missing)}.\n")
    return "".join(parts)


def _taken(runs: Path) -> str:
    """What all of them took."""
    found = costs(runs)
    lines = "".join(
        f"| {cost.study} | {cost.seconds / 60:.1f} | {cost.own / 60:.1f} |\n"
        for cost in sorted(found, key=lambda cost: -cost.own)
    )
    total = sum(cost.own for cost in found) / 3600
    return (
        f"\n## What they took\n\nThe cells of these {len(found)} studies took {total:.1f} hours, each counted once, "
        "on the machine and beside the jobs of that day. Minutes of all cells of a study, and of those that no study "
        "above it in `study list` shares.\n\n| study | minutes | of its own |\n|---|---|---|\n" + lines
    )


def _section(name: str, found: Mapping[str, Any]) -> str:
    study, rows = STUDIES.get(name), found["rows"]
    lines = _lines(rows)
    same = {k: v for k, v in lines[0].items() if len(lines) > 1 and _alike(lines, k)}
    columns = [key for key in dict.fromkeys(k for line in lines for k in line) if key not in same]
    told = ", ".join(f"{key} {value}" for key, value in same.items() if value != MISSING)
    table = f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}\n" if columns else ""
    body = "".join(f"| {' | '.join(line.get(key, MISSING) for key in columns)} |\n" for line in lines if columns)
    minutes = f"{found['seconds'] / 60:.0f} min" if found["seconds"] >= 60 else f"{found['seconds']:.0f} s"
    when = f"{found['date']}, " if found.get("date") else ""
    head = f"\n## {name}: {study.title}\n\n`{command_of(found)}` ({when}{minutes}). "
    return f"{head}{f'In every row: {told}.' if told else ''}\n\n{table}{body}"


def _alike(lines: Sequence[Mapping[str, str]], column: str) -> bool:
    """Whether it can be said once. A number that the paper prints too stands beside the paper's."""
    printed = any(f"{column}, paper" in line or column.endswith(", paper") for line in lines)
    return not printed and len({line.get(column) for line in lines}) == 1


def _lines(rows: Sequence[Row]) -> list[dict[str, str]]:
    """Text by column; a number takes in its interval or its deviation, and the paper's stands after it."""
    return [_line(row) for row in rows]


def _line(row: Row) -> dict[str, str]:
    printed = row.get("paper") or {}
    line: dict[str, str] = {}
    for key, value in row.items():
        if key in _LEFT_OUT or _belongs(key, row):
            continue
        line[_named(key)] = _with_interval(key, value, row)
        if key in printed:
            line[f"{_named(key)}, paper"] = _text(printed[key])
    if row.get("failed"):
        line["failed"] = str(row["failed"])
    return {key: text.replace("|", "\\|") for key, text in line.items()}


def _belongs(key: str, row: Row) -> bool:
    """Whether the column is the end of another's interval, or its deviation."""
    return any(key.endswith(end) and key.removesuffix(end) in row for end in ("_low", "_high", "_std"))


def _with_interval(key: str, value: object, row: Row) -> str:
    low, high, deviation = (row.get(f"{key}{end}") for end in ("_low", "_high", "_std"))
    if isinstance(value, int | float) and low is not None and high is not None:
        return f"{_text(value)} ({_text(low)} to {_text(high)})"
    if isinstance(value, int | float) and deviation is not None:
        return f"{_text(value)} ± {_text(deviation)}"
    return _text(value)


def _named(key: str) -> str:
    return key.replace("_", " ")


def _text(value: object) -> str:
    if value is None or value != value:  # NaN
        return MISSING
    return f"{value:.3g}" if isinstance(value, float) else str(value).removeprefix("folder:")
