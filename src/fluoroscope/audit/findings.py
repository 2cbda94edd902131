"""The findings of an audit, put together from its cells: data, no page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image
from torch import Tensor

from fluoroscope.audit.cell import AuditCell
from fluoroscope.audit.plan import AuditPlan
from fluoroscope.audit.verdicts import Verdicts
from fluoroscope.cells import Outcome
from fluoroscope.federation.server import versions
from fluoroscope.findings import FORMAT
from fluoroscope.threat_models.words import THREATS_IN_WORDS


def assembled(
    plan: AuditPlan, cells: Sequence[AuditCell], outcomes: Mapping[str, Outcome], left_out: Mapping[str, str], out: Path
) -> dict[str, Any]:
    """What findings.json holds; the gallery's images are written beside it."""
    found = [_cell(cell, outcomes.get(cell.id), left_out.get(cell.id), out) for cell in cells]
    claims = {each["defence"]: each.pop("claim") for each in found if "claim" in each}
    images = plan.task.images
    verdicts = Verdicts(plan, found)
    return {
        "format": FORMAT,
        "title": f"What {images.name} would leak in this federation",
        "seed": plan.seed,
        "preset": plan.audit.preset,
        "plan": plan.model_dump(mode="json"),
        "versions": versions(),
        "data": {
            "name": images.name,
            "licence": images.licence,
            "synthetic": images.synthetic,
            "images": len(images),
            "size": images.size,
            "classes": list(images.classes),
            "clients": [
                {
                    "name": split.name,
                    "train": len(split.train),
                    "validation": len(split.validation),
                    "batch_size": split.batch_size or plan.training.batch_size,
                }
                for split in plan.task.clients
            ],
        },
        "defences": [
            {
                "label": label,
                "parts": [part.model_dump(mode="json") for part in parts],
                "claim": claims.get(label) or {"statement": "not known: its federation was not trained"},
            }
            for label, parts in plan.labels.items()
        ],
        "threats": [{"name": name, **THREATS_IN_WORDS[name]} for name in plan.audit.threats],
        "verdicts": verdicts.all(),
        "recommendation": verdicts.recommendation(),
        "safe_to_say": verdicts.safe_to_say(),
        "not_safe_to_say": verdicts.not_safe_to_say(),
        "cells": found,
        "left_out": [f"{name}: {why}" for name, why in left_out.items()],
    }


def _cell(cell: AuditCell, outcome: Outcome | None, left_out: str | None, out: Path) -> dict[str, Any]:
    status = "left out" if outcome is None else "failed" if outcome.failed else "done"
    notes = {} if outcome is None else dict(outcome.result.notes)
    found = {
        "id": cell.id,
        "kind": cell.kind,
        "threat": cell.threat,
        "defence": cell.label,
        "settings": cell.settings,
        "status": status,
        "reason": left_out if outcome is None else outcome.failed,
        "scores": notes.get("scores", {}),
        "curves": notes.get("curves", {}),
        "gallery": [] if outcome is None else _gallery(cell, outcome, notes.get("gallery", []), out),
        "verdicts": notes.get("verdicts", []),
    }
    return {**found, "claim": notes["claim"]} if "claim" in notes else found


def _gallery(
    cell: AuditCell, outcome: Outcome, captions: Sequence[Mapping[str, Any]], out: Path
) -> list[dict[str, Any]]:
    """Each image as a PNG; the prior is one for all of a cell."""
    shown = []
    images = outcome.result.images
    for i, words in enumerate(captions):
        paths = {
            "original": _write(images["original"][i], out, f"{cell.id}-{i}-original"),
            "reconstruction": _write(images["reconstruction"][i], out, f"{cell.id}-{i}-reconstruction"),
            "prior": _write(images["prior"], out, f"{cell.id}-prior"),
        }
        shown.append({**paths, **words})
    return shown


def _write(image: Tensor, out: Path, name: str) -> str:
    path = Path("gallery") / f"{name}.png"
    (out / "gallery").mkdir(parents=True, exist_ok=True)
    pixels = (image.nan_to_num().clamp(0, 1) * 255).round().byte().permute(1, 2, 0).numpy()
    Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[:, :, 0]).save(out / path)
    return path.as_posix()
