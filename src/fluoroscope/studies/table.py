"""Rows as a table, each measure with the paper's number beside it."""

from typing import Any

from fluoroscope.studies.study import Row, Rows

MISSING = "–"


def beside(rows: Rows) -> list[dict[str, str]]:
    """Text by column: settings, then every measure followed by the paper's number where it prints one."""
    printed = dict.fromkeys(name for row in rows for name in row.paper or {})
    measures = dict.fromkeys(name for row in rows for name in row.result.measures)
    lines = [_line(row, list(measures), list(printed)) for row in rows]
    if any(row.failed for row in rows):
        lines = [{**line, "failed": _text(row.failed)} for line, row in zip(lines, rows, strict=True)]
    return lines


def common(rows: Rows) -> dict[str, str]:
    """The settings that are the same in every one of several rows: said once, they leave room for the others."""
    lines = beside(rows)
    settings = [name.replace("_", " ") for name in rows[0].settings] if len(rows) > 1 else []
    return {name: lines[0][name] for name in settings if len({line[name] for line in lines}) == 1}


def markdown(rows: Rows) -> str:
    """The same as a Markdown table."""
    lines = beside(rows)
    columns = list(lines[0])
    body = [[line[column] for column in columns] for line in lines]
    widths = [max(len(cell) for cell in cells) for cells in zip(columns, *body, strict=True)]
    rule = ["-" * width for width in widths]
    return "".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |\n"
        for line in [columns, rule, *body]
    )


def _line(row: Row, measures: list[str], printed: list[str]) -> dict[str, str]:
    line = {name: _text(value) for name, value in row.settings.items()}
    paper = row.paper or {}
    for name in measures:
        line[name] = _text(row.result.measures.get(name))
        if name in printed:
            line[f"{name} (paper)"] = _text(paper.get(name))
    for name in printed:  # what only the paper has, such as its other data sets
        if name not in measures:
            line[f"{name} (paper)"] = _text(paper.get(name))
    return {name.replace("_", " "): text for name, text in line.items()}


def _text(value: Any) -> str:  # noqa: ANN401  # any plain value
    if value is None or value != value:  # NaN
        return MISSING
    return f"{value:.3g}" if isinstance(value, float) else str(value)
