"""Measure the map that a page places hospitals on, and write it down.

    python examples/frontier/measure.py --data folder:cxr-nih-64 --work runs/studies \\
        --out src/fluoroscope/report/frontier.json --page docs/frontier.md

The cells are those of `fluoroscope study run frontier/map` in the same folder; finished ones are not run again. With
--minutes it stops in time and writes down what is finished; the same command goes on. With --again resisted the points
of --out that leaked stay as they are, and the others are attacked anew; one that is not finished stays as it was.
"""

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

from fluoroscope import process_tuning
from fluoroscope.cells import Local, run_cells
from fluoroscope.federation.data_plan import shown_source
from fluoroscope.studies import STUDIES
from fluoroscope.studies.study import StudyCell

BEGIN, END = "<!-- the map: written by examples/frontier/measure.py -->", "<!-- end of the map -->"
PLACE = ("images_per_step", "steps", "epochs", "optimiser", "size", "network", "defence")
MEASURED = ("leak", "leak_low", "leak_high", "p_value", "found", "images", "attacks", "beyond", "ssim", "ssim_prior")


def main() -> None:
    """Run what is missing, then write the points and the page's tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="phantom/chest", help="a source of images, as in `fluoroscope data show`")
    parser.add_argument("--work", type=Path, required=True, help="folder of the study's cells")
    parser.add_argument("--out", type=Path, required=True, help="the file to write")
    parser.add_argument("--page", type=Path, help="a Markdown page whose tables are written anew")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, help="processes side by side; as many as cores by default")
    parser.add_argument("--minutes", type=float, help="stop after so many")
    parser.add_argument("--again", choices=("all", "resisted"), default="all", help="which points are measured")
    asked = parser.parse_args()
    process_tuning.apply()
    grid = sorted(STUDIES.get("frontier/map").grid("small", asked.data), key=_images)
    known = _known(asked.out) if asked.again == "resisted" else {}
    until = None if asked.minutes is None else time.monotonic() + 60 * asked.minutes
    engine = Local(asked.workers)
    anew = [cell for cell in grid if not known.get(_place(cell.settings), {}).get("beyond")]
    outcomes = dict(zip(anew, run_cells(anew, asked.seed, asked.work, engine, _tell, until=until), strict=True))
    points: list[dict[str, Any]] = []
    missing: list[str] = []
    for cell in grid:
        place = {name: cell.settings[name] for name in PLACE}
        outcome = outcomes.get(cell)
        if outcome is None or (outcome.failed and _place(place) in known):
            points.append(known[_place(place)])
            continue
        if outcome.failed:
            missing.append(f"{', '.join(str(value) for value in place.values())}: {outcome.failed}")
            continue
        measures = {name: _rounded(outcome.result.measures.get(name)) for name in MEASURED}
        notes = outcome.result.notes
        points.append({**place, **measures, "attack": notes["attack"], "tried": notes["tried"]})
    data = shown_source(asked.data)
    command = f"python examples/frontier/measure.py --data {data}" + (f" --seed {asked.seed}" if asked.seed else "")
    content = {"command": command, "data": data.rpartition(":")[2], "seed": asked.seed, "points": points}
    asked.out.write_text(json.dumps({**content, "missing": missing}, indent=1) + "\n", encoding="utf-8")
    if asked.page is not None:
        asked.page.write_text(_page(asked.page.read_text(encoding="utf-8"), content, missing), encoding="utf-8")
    print(f"{len(points)} points measured, {len(missing)} missing", flush=True)


def _known(out: Path) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The points of this file."""
    return {_place(point): point for point in json.loads(out.read_text(encoding="utf-8"))["points"]}


def _place(settings: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(settings[name] for name in PLACE)


def _images(cell: StudyCell) -> int:
    """The small clients first: whoever stops early has most to show for it."""
    return int(cell.settings["images_per_step"] * cell.settings["steps"] * cell.settings["epochs"])


def _tell(done: float, cells: int, what: str) -> None:
    print(f"{done:.1f} of {cells}: {what}", end="\r", flush=True)


def _rounded(value: float | None) -> float | int | None:
    if isinstance(value, float):
        return round(value, 4) if math.isfinite(value) else None
    return value


def _page(text: str, content: dict[str, Any], missing: list[str]) -> str:
    """The page with the part between the two marks written anew."""
    before, begun, rest = text.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not begun or not ended:
        raise SystemExit(f"the page has no place for the map: put {BEGIN} and {END} into it.")
    lines = [
        f"`{content['command']}`, seed {content['seed']}: {len(content['points'])} points. *Leak*: RDLV on the own "
        "patients less that on others, of the attack that got most, with its interval corrected for the number of "
        "attacks. *Found*: originals that a guess is nearest to, of everybody's.",
    ]
    points = content["points"]
    for title, chosen in (
        ("Known to leak", [p for p in points if p["beyond"]]),
        ("Resisted", [p for p in points if not p["beyond"] and p["attacks"]]),
        (
            "No result: no attack made a guess, since none fitted its time or all gave up",
            [p for p in points if not p["attacks"]],
        ),
    ):
        if chosen:
            lines += ["", f"### {title}", "", *_table(chosen)]
    if missing:
        lines += ["", "### Not measured", "", *(f"- {each}" for each in missing)]
    return before + BEGIN + "\n\n" + "\n".join(lines) + "\n\n" + END + after


def _table(points: list[dict[str, Any]]) -> list[str]:
    head = "| images per step | steps | epochs | optimiser | pixels | network | defence | attack | leak | found | p |"
    rows = [
        f"| {p['images_per_step']} | {p['steps']} | {p['epochs']} | {p['optimiser']} | {p['size']} | {p['network']} | "
        f"{p['defence']} | {p['attack'] or '–'} | {_leak(p)} | {p['found']} of {p['images']} | {_p(p)} |"
        for p in points
    ]
    return [head, "|" + "---|" * 11, *rows]


def _leak(point: dict[str, Any]) -> str:
    if point["leak"] is None:
        return "–"
    ends = point["leak_low"], point["leak_high"]
    return f"{point['leak']:.2f}" + ("" if None in ends else f" ({ends[0]:.2f} to {ends[1]:.2f})")


def _p(point: dict[str, Any]) -> str:
    return "–" if point["p_value"] is None else f"{point['p_value']:.3f}"


if __name__ == "__main__":
    main()
