"""How P2's rows are drawn."""

import math

from matplotlib.figure import Figure

from fluoroscope.report.figures import Bar, Panel, Point, Tile, bars, gallery, panels
from fluoroscope.studies.study import Row, Rows


def by_images(title: str, rows: Rows) -> Figure:
    """Table I: recovery rate, PSNR and seconds by the victim's images; P2's numbers beside."""
    return panels(
        title,
        [
            Panel(label, "images of the victim", label, _lines(rows, measure, "images"), log_y=measure == "seconds")
            for measure, label in (
                ("rate", "recovery rate (95 % interval)"),
                ("psnr", "mean PSNR, dB"),
                ("seconds", "seconds of recovery"),
            )
        ],
    )


def by_neurons(title: str, rows: Rows) -> Figure:
    """Fig. 5: by k, the neurons of the first layer."""
    return panels(
        title,
        [
            Panel(label, "k / images of the victim", label, _lines(rows, measure, "k"), log_x=True)
            for measure, label in (("rate", "recovery rate (95 % interval)"), ("psnr", "mean PSNR, dB"))
        ],
    )


def examples(title: str, rows: Rows) -> Figure:
    """Fig. 3: originals over what was recovered."""
    found = {}
    for row in rows:
        if row.failed:
            continue
        where = f"{row['size']} px"
        for kind in ("originals", "recovered"):
            found[f"{where}: {kind}"] = [Tile(image.numpy(), "") for image in row.result.images[kind]]
    return gallery(title, found)


def compared(title: str, rows: Rows) -> Figure:
    """Fig. 4: SSIM, PSNR and seconds of each attack."""
    kept = [row for row in rows if not row.failed]
    drawn = []
    for measure, label in (("ssim", "mean SSIM"), ("psnr", "mean PSNR, dB"), ("seconds", "seconds")):
        names = dict.fromkeys(row["name"] for row in kept)
        series = {n: [Point(row["images"], _number(row, measure)) for row in kept if row["name"] == n] for n in names}
        drawn.append(Panel(label, "images in the batch", label, series, log_y=measure == "seconds", joined=False))
    return panels(title, drawn)


def worth(title: str, rows: Rows) -> Figure:
    """Table II: each score of the classifier, on originals and on recovered images."""
    measures = ("aupr", "tnr", "tpr", "accuracy", "auroc")
    drawn = [
        Bar(f"{m.upper()}, {row['scored_on']}", _number(row, m)) for m in measures for row in rows if not row.failed
    ]
    return bars(title, drawn, "score of the attacker's classifier")


def _lines(rows: Rows, measure: str, x: str) -> dict[str, list[Point]]:
    lines: dict[str, list[Point]] = {}
    for row in rows:
        if row.failed:
            continue
        at = row["k"] / row["images"] if x == "k" else float(row["images"])
        ends = (_number(row, "rate_low"), _number(row, "rate_high")) if measure == "rate" else ()
        lines.setdefault(_name(row), []).append(Point(at, _number(row, measure), *ends))
        if row.paper and measure in row.paper and x == "images":
            theirs = lines.setdefault(f"P2, {row['size']} px", [])
            if at not in [point.x for point in theirs]:
                theirs.append(Point(at, float(row.paper[measure])))
    return lines


def _name(row: Row) -> str:
    steps = row["local_iterations"]
    kind = " mini-batches" if row["mini_batches"] else f" iteration{'s' if steps > 1 else ''}"
    size = "" if row["size"] == 28 else f", {row['size']} px"  # P2's other size
    return f"{row['features']}, {row['decoder']}, {steps}{kind}, {row['aggregation']}{size}"


def _number(row: Row, measure: str) -> float:
    value = row[measure]
    return math.nan if value is None else float(value)


def harvested(title: str, rows: Rows) -> Figure:
    """Recovery rate over all victims, by rounds."""
    drawn = [
        Bar(
            f"{_several(row['rounds'], 'round')}, {_several(row['victims'], 'victim')}",
            _number(row, "rate"),
            _number(row, "rate_low"),
            _number(row, "rate_high"),
        )
        for row in rows
        if not row.failed
    ]
    return bars(title, drawn, "share of the victims' images recovered (95 % interval)")


def _several(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number > 1 else ''}"
