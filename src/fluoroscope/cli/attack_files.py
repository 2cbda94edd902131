"""What `fluoroscope attack` leaves on disk: numbers, the guess itself, and a picture."""

from pathlib import Path

from matplotlib.figure import Figure

from fluoroscope import strict_json
from fluoroscope.atomic_write import make_folder, write_tensors, write_text
from fluoroscope.report.figures import Tile, gallery, write
from fluoroscope.scenarios.recorded_update import Attacked

SHOWN = 16
"""Images in the picture."""


def write_attacked(attacked: Attacked, out: Path) -> dict[str, Path]:
    """findings.json, reconstruction.safetensors and the picture as PNG and SVG."""
    make_folder(out, private=not out.exists())  # what is in it may be of patients
    findings, tensors = out / "findings.json", out / "reconstruction.safetensors"
    write_text(findings, strict_json.dumps(attacked.plain()))
    guess = attacked.guess
    arrays = {"images": guess.images} | ({} if guess.labels is None else {"labels": guess.labels})
    write_tensors(tensors, arrays)
    png, svg = write(_picture(attacked), out / "reconstruction")
    return {"findings": findings, "reconstruction": tensors, "png": png, "svg": svg}


def _picture(attacked: Attacked) -> Figure:
    """Original, prior and reconstruction of every image; without the truth, what there is."""
    guessed, evidence = attacked.guess.images.cpu(), attacked.evidence
    title = f"{attacked.attack} on {evidence.client}, round {evidence.record.round}, seed {attacked.seed}"
    if len(guessed) > SHOWN:
        title += f", the first {SHOWN} of {len(guessed)}"
    prior = evidence.prior
    rows: dict[str, list[Tile]] = {}
    for i, image in enumerate(attacked.scores[:SHOWN]):
        assert evidence.truth is not None
        tiles = [Tile(evidence.truth.images[image.original].numpy(), "original")]
        if prior is not None:
            tiles.append(Tile(prior.numpy(), f"prior\nSSIM {image.ssim_prior:.3f}, {image.psnr_prior:.1f} dB"))
        leaked = "" if image.rdlv is None else f"\nRDLV {image.rdlv:+.2f}"
        caption = f"reconstruction\nSSIM {image.ssim:.3f}, {image.psnr:.1f} dB{leaked}"
        rows[f"image {i + 1}"] = [*tiles, Tile(guessed[image.reconstruction].numpy(), caption)]
    if not rows:
        known = [] if prior is None else [Tile(prior.numpy(), "prior")]
        rows = {f"guess {i + 1}": [*known, Tile(x.numpy(), "reconstruction")] for i, x in enumerate(guessed[:SHOWN])}
    return gallery(title, rows)
