"""Findings in short, to be kept in a repository: the numbers of the rows, and no curve, image or path."""

from pathlib import Path
from typing import Any

from fluoroscope import strict_json
from fluoroscope.atomic_write import make_folder, write_text
from fluoroscope.studies.claims.judge import findings
from fluoroscope.studies.study import STUDIES

_DIGITS = 5


def keep(runs: Path, folder: Path) -> list[Path]:
    """The findings of every study that was run, as FOLDER/p4/table-2.json; those there of other studies stay."""
    written = []
    for name in STUDIES:
        found = findings(runs, name)
        if found is None:
            continue
        path = folder / f"{name}.json"
        make_folder(path.parent)
        rows = [{key: _short(value) for key, value in row.items() if key != "curves"} for row in found["rows"]]
        head: dict[str, Any] = {key: found[key] for key in ("study", "size", "seed", "date") if key in found}
        write_text(path, strict_json.dumps({**head, "seconds": round(found["seconds"]), "rows": rows}))
        written.append(path)
    return written


def _short(value: Any) -> Any:  # noqa: ANN401  # any plain value
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, dict):
        return {key: _short(each) for key, each in value.items()}
    return value
