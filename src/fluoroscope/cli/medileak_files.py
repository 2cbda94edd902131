"""What `fluoroscope medileak` leaves on disk: numbers, and what was recovered, as tensors and as a picture."""

from pathlib import Path

from fluoroscope import strict_json
from fluoroscope.atomic_write import make_folder, write_tensors, write_text
from fluoroscope.federation.task import Task
from fluoroscope.report.figures import Tile, gallery, write
from fluoroscope.scenarios.malicious_server import Outcome, participants

SHOWN = 6
"""Images of a victim in the picture."""


def write_outcome(outcome: Outcome, task: Task, title: str, out: Path) -> dict[str, Path]:
    """findings.json; where something leaked, the images and a picture of them beside the originals."""
    make_folder(out, private=not out.exists())  # what is in it may be of patients
    files = {"findings": out / "findings.json"}
    write_text(files["findings"], strict_json.dumps(outcome.plain()))
    if not outcome.recoveries:
        return files
    files["recovered"] = out / "recovered.safetensors"
    write_tensors(files["recovered"], {each.victim: each.recovered.images for each in outcome.recoveries})
    rows: dict[str, list[Tile]] = {}
    truth = {each.name: each.batch.images for each in participants(task)}
    for each in outcome.recoveries:
        shown = each.score.recovered.nonzero()[:SHOWN, 0]
        if len(shown):
            found = each.recovered.images[each.score.reconstruction[shown]].clamp(0, 1)
            rows[f"{each.victim}: originals"] = [Tile(x.numpy(), "") for x in truth[each.victim][shown]]
            rows[f"{each.victim}: recovered"] = [
                Tile(x.numpy(), f"{each.score.psnr[i]:.0f} dB") for x, i in zip(found, shown.tolist(), strict=True)
            ]
    if rows:
        files["png"], files["svg"] = write(gallery(title, rows), out / "recovered")
    return files
