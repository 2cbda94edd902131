"""An audit's folder, read back: findings.json and timing.json, each problem named with its file and key."""

import json
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, JsonValue, ValidationError

from fluoroscope import strict_json
from fluoroscope.errors import BadInput
from fluoroscope.findings.consistency import at_odds
from fluoroscope.findings.document import FORMAT, Audit, Findings, Timing

M = TypeVar("M", bound=BaseModel)
MOST_BYTES = 2**28
"""Of findings.json and timing.json."""


def read_findings(folder: str | Path) -> Audit:
    """The audit in a folder.

    Args:
        folder: what `fluoroscope audit --out` wrote.

    Returns:
        `findings` with cells, scores and verdicts as frozen types, and the document as it stands in the file.

    Raises:
        BadInput: a file is missing, damaged or at odds with itself; the message names it and its key.

    Example:
        >>> import fluoroscope as fl
        >>> fl.read_findings("no/such/folder")
        Traceback (most recent call last):
        fluoroscope.errors.BadInput: no/such/folder/findings.json is missing: no/such/folder holds no audit. \
`fluoroscope audit PLAN --out no/such/folder` writes one.
    """
    folder = Path(folder)
    path = folder / "findings.json"
    document = _json(path, f"{folder} holds no audit. `fluoroscope audit PLAN --out {folder}` writes one.")
    findings = _checked(Findings, document, path)
    for problem in at_odds(findings, document):
        raise BadInput(f"{path}: {problem}.")
    times = folder / "timing.json"
    timing = _checked(Timing, _json(times, ""), times) if times.exists() else None
    return Audit(folder, findings, document, timing)


def _json(path: Path, missing: str) -> dict[str, JsonValue]:
    if not path.is_file():
        raise BadInput(f"{path} is missing: {missing}")
    if path.stat().st_size > MOST_BYTES:
        raise BadInput(f"{path} has {path.stat().st_size:,} bytes; at most {MOST_BYTES:,} are read.")
    try:
        document = strict_json.loads(path.read_text(encoding="utf-8"))
        json.dumps(document, ensure_ascii=False).encode()  # half a character can be read, and not be written again
    except (ValueError, OSError, RecursionError) as problem:  # a UnicodeDecodeError is a ValueError
        raise BadInput(
            f"{path} cannot be read as JSON ({problem}). Write it again with `fluoroscope audit`."
        ) from problem
    if not isinstance(document, dict):
        raise BadInput(f"{path} holds a {type(document).__name__}, not an object with keys.")
    return document


def _checked(model: type[M], document: dict[str, JsonValue], path: Path) -> M:
    if model is Findings and document.get("format") not in range(1, FORMAT + 1):
        seen = document.get("format")
        raise BadInput(
            f"{path}: format: this version reads formats 1 to {FORMAT}, not {seen!r}. Run the audit again with it."
        )
    try:
        return model.model_validate(document)
    except ValidationError as problem:
        first = problem.errors()[0]
        key = ".".join(map(str, first["loc"]))
        seen = "" if first["type"] == "missing" else f", not {str(first['input'])[:60]!r}"
        raise BadInput(f"{path}: {key}: {first['msg']}{seen}.") from problem
