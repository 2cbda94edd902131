"""How P1's rows are drawn."""

import math

from matplotlib.figure import Figure

from fluoroscope.report.figures import Panel, Point, Tile, gallery, panels
from fluoroscope.scores.similarity import ssim
from fluoroscope.studies.study import Row, Rows


def pictures(title: str, rows: Rows) -> Figure:
    """Figs 3, 7: original, prior and reconstruction of the same images, row by row."""
    lines = {}
    for row in rows:
        if row.failed:
            continue
        kept = row.result.images
        prior = kept["prior"].expand_as(kept["originals"])
        tiles = []
        similar = zip(ssim(kept["originals"], prior), ssim(kept["originals"], kept["reconstructions"]), strict=True)
        for i, (before, after) in enumerate(similar):
            tiles += [
                Tile(kept["originals"][i].numpy(), "original"),
                Tile(kept["prior"][0].numpy(), f"prior, SSIM {before:.2f}"),
                Tile(kept["reconstructions"][i].numpy(), f"reconstruction, SSIM {after:.2f}"),
            ]
        varied = [
            f"{label} {row[key]:g}"
            for key, label in (("sigma0", "σ₀ ="), ("size", "pixels:"), ("victims", "victims:"))
            if len({other[key] for other in rows}) > 1
        ]
        lines["\n".join([_name(row), *varied])] = tiles
    return gallery(title, lines)


def by_round(title: str, rows: Rows) -> Figure:
    """Fig. 5: leakage by training stage."""
    return panels(title, [_panel(rows, "round", "FL round", "RDLV by round")])


def by_batch(title: str, rows: Rows) -> Figure:
    """Leakage by the number of images in the one step."""
    return panels(title, [_panel(rows, "batch_size", "images in the batch", "RDLV by batch size")])


def by_steps(title: str, rows: Rows) -> Figure:
    """Leakage by the number of steps of one image each."""
    return panels(title, [_panel(rows, "local_steps", "local steps", "RDLV by local steps")])


def quantified(title: str, rows: Rows) -> Figure:
    """Fig. 6: batch size, local steps and noise, a panel each."""
    drawn = [
        ("batch_size", "images in the batch", "a: batch size"),
        ("local_steps", "local steps of one image each", "b: local steps"),
        ("sigma0", "σ₀", "c: noise"),
    ]
    return panels(title, [_panel(_about(rows, name), name, label, top) for name, label, top in drawn])


def _about(rows: Rows, name: str) -> Rows:
    """The rows in which nothing else was varied; the common first point belongs to every panel."""
    plain = {"batch_size": 1, "local_steps": 1, "sigma0": 0.0}
    varied = [row for row in rows if all(row[key] == value for key, value in plain.items() if key != name)]
    lines = {_name(row) for row in varied if row[name] != plain[name]}
    return [row for row in varied if _name(row) in lines]


def _panel(rows: Rows, x: str, x_label: str, title: str) -> Panel:
    names = dict.fromkeys(_name(row) for row in rows)
    series = {
        name.replace("\n", ", "): [
            Point(float(row[x]), _number(row, "rdlv"), _number(row, "rdlv_low"), _number(row, "rdlv_high"))
            for row in rows
            if _name(row) == name
        ]
        for name in names
    }
    return Panel(title, x_label, "RDLV (95 % interval)", series, {"no better than the prior": 0.0})


def _name(row: Row) -> str:
    parts = [row["attack"]]
    if row["without"] != "nothing":
        parts.append(f"without {row['without']}")
    if row["local_steps"] > 1 and row["batch_size"] > 1:
        parts.append(f"batches of {row['batch_size']}")
    if row["labels"] != "own":
        parts.append(f"labels {row['labels']}")
    if row["start"] == "scratch":
        parts.append("from scratch")
    return "\n".join(parts)


def _number(row: Row, measure: str) -> float:
    value = row[measure]
    return math.nan if value is None else float(value)
