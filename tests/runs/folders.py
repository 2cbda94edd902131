"""Folders as commands leave them, with little in them."""

import json
from pathlib import Path

from tests.report.audits import make_audit


def audit_folder(folder: Path) -> Path:
    """An audit of patients: findings, gallery, cells, updates, a page with their images, and somebody's notes."""
    folder.mkdir(parents=True)
    make_audit(folder, synthetic=False)
    write(folder / "cells" / f"{'a' * 24}.json", "{}")
    write(folder / "cells" / f"{'a' * 24}.safetensors", "image")
    write(folder / "federations/95f0/rounds/0001/north.safetensors", "update")
    write(folder / "checkpoints/b/learned.safetensors", "learned")
    write(folder / "report.pdf", "image")
    write(folder / "notes.txt", "mine")
    return folder


def federation_folder(folder: Path) -> Path:
    """Records of two rounds, an attack and a search in them."""
    write(folder / "run.json", json.dumps({"architecture": {}, "fingerprint": "f", "clients": ["north"]}))
    write(folder / "plan.private.json", '{"data": {"source": "folder:/home/anna/x"}}')
    for each in ("0000", "0001"):
        write(folder / "rounds" / each / "manifest.json", "{}")
        write(folder / "rounds" / each / "global.safetensors", "model")
    write(folder / "rounds/0001/north.safetensors", "update")
    write(folder / "rounds/.0002.part/north.safetensors", "half")
    write(folder / "result.json", "{}")
    write(folder / "attacks/dlg-north/findings.json", json.dumps({"attack": "dlg", "objective": 1.0}))
    write(folder / "attacks/dlg-north/reconstruction.png", "image")
    write(folder / "calibration/calibration.json", json.dumps({"target": "holds", "defences": []}))
    write(folder / "calibration/with/dp/rounds/0001/north.safetensors", "update")
    return folder


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir() or path.is_symlink()}
