"""What the studies took, each cell counted once however many studies share it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fluoroscope import strict_json
from fluoroscope.studies.claims.judge import findings
from fluoroscope.studies.study import STUDIES

_OF_THE_STUDY = ("paper", "curves", "notes")
"""What a row has from its study, and not from its cell."""


@dataclass(frozen=True)
class Cost:
    """Of one study."""

    study: str
    seconds: float
    """All of its cells, whenever they were run."""
    own: float
    """Those that no study before it has."""


def costs(runs: Path) -> list[Cost]:
    """Of every study with findings, in the order of `study list`."""
    found = []
    counted: set[str] = set()
    for name in STUDIES:
        study = findings(runs, name)
        if study is None:
            continue
        cells = dict(zip(map(_cell, study["rows"]), _shares(study["rows"], study["seconds"]), strict=True))
        found.append(Cost(name, study["seconds"], math.fsum(s for cell, s in cells.items() if cell not in counted)))
        counted |= cells.keys()
    return found


def _cell(row: Mapping[str, Any]) -> str:
    """One cell's settings and numbers are the same in every study, and no other's are."""
    return strict_json.dumps({key: value for key, value in row.items() if key not in _OF_THE_STUDY})


def _shares(rows: Sequence[Mapping[str, Any]], seconds: float) -> list[float]:
    """The study's seconds by row: as the attacks' own seconds are, where those were measured in every row."""
    taken = [row.get("seconds") for row in rows]
    weights = [float(each) for each in taken if each]
    if len(weights) < len(rows):
        weights = [1.0] * len(rows)
    return [seconds * weight / sum(weights) for weight in weights]
