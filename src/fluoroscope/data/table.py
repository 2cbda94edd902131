"""`images.csv`: what a folder cannot say about its images: label, patient, licence, and the site that holds each."""

import csv
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from fluoroscope.errors import BadInput

NAMES = ("images.csv", "labels.csv")
_COLUMNS = "file,label,patient,licence"


@dataclass(frozen=True)
class Row:
    """One line of the table; `file` is relative to the table's folder, with forward slashes."""

    line: int
    file: str
    label: str
    patient: str | None
    licence: str | None
    site: str | None


def find_table(root: Path) -> Path | None:
    """The table beside the images, if there is one."""
    found = [root / name for name in NAMES if (root / name).is_file()]
    if len(found) > 1:
        raise BadInput(f"{root} holds both {' and '.join(NAMES)}; keep one of them.")
    return found[0] if found else None


def read_table(path: Path, required: tuple[str, ...]) -> list[Row]:
    """The rows of the table, each with its line number for the messages."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:  # Excel writes a byte order mark
            reader = csv.reader(stream, strict=True)
            header = [cell.strip() for cell in next(reader, [])]
            missing = [column for column in required if column not in header]
            if missing:
                raise BadInput(
                    f"{path}, line 1: no column {', '.join(map(repr, missing))} among {header}. "
                    f"The first line must name the columns, separated by commas: {_COLUMNS}."
                )
            rows = [_row(path, reader.line_num, header, cells, required) for cells in reader if cells]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path} is not a readable table ({error}); save it as CSV in UTF-8.") from error
    _refuse_duplicates(path, rows)
    return rows


def _row(path: Path, line: int, header: list[str], cells: list[str], required: tuple[str, ...]) -> Row:
    if len(cells) != len(header):
        raise BadInput(
            f"{path}, line {line}: {len(cells)} cells for {len(header)} columns; quote a cell that holds a comma."
        )
    row = {column: cell.strip() for column, cell in zip(header, cells, strict=True)}
    empty = [column for column in required if not row[column]]
    if empty:
        raise BadInput(f"{path}, line {line}: {', '.join(empty)} is empty; fill it in.")
    file = PurePosixPath(row["file"].replace("\\", "/"))
    if file.is_absolute() or ".." in file.parts or "\0" in row["file"]:
        raise BadInput(f"{path}, line {line}: {row['file']!r} must be a path inside {path.parent}.")
    patient, licence, site = (row.get(column) or None for column in ("patient", "licence", "site"))
    return Row(line, str(file), row["label"], patient, licence, site)


def _refuse_duplicates(path: Path, rows: list[Row]) -> None:
    seen: dict[str, int] = {}
    for row in rows:
        if row.file in seen:
            raise BadInput(
                f"{path}, line {row.line}: {row.file} was already on line {seen[row.file]}; keep one of them."
            )
        seen[row.file] = row.line
