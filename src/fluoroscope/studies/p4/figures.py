"""How P4's rows are drawn."""

import math

from matplotlib.figure import Figure

from fluoroscope.report.figures import Bar, Panel, Point, Tile, bars, gallery, panels
from fluoroscope.studies.study import Row, Rows


def by_iteration(title: str, rows: Rows) -> Figure:
    """Figs 2, 3, 5: MSE and SSIM by iteration over the converged images, and what a random image scores."""
    sources = list(dict.fromkeys(row["data"] for row in rows))
    drawn = []
    for source in sources:
        here = [row for row in rows if row["data"] == source]
        for measure, label in (("mse", "MSE"), ("ssim", "SSIM")):
            drawn.append(
                Panel(
                    f"{_set(here[0])}, {here[0]['model']}",
                    "iteration",
                    f"mean {label} of converged images",
                    {_name(row): _curve(row, measure) for row in here},
                    {"random other image": here[0][f"{measure}_random"]},
                    log_y=measure == "mse",
                )
            )
    return panels(title, drawn)


def by_lambda(title: str, rows: Rows) -> Figure:
    """Tables I, III: the trade-off between quality and convergence; the adaptive measure as a level."""
    drawn = []
    for measure, label in (("mse", "MSE"), ("ssim", "SSIM"), ("non_converging", "share that does not converge")):
        series: dict[str, list[Point]] = {}
        levels: dict[str, float] = {}
        for init in dict.fromkeys(row["init"] for row in rows):
            here = [row for row in rows if row["init"] == init]
            series[init] = [
                Point(row["lambda2"], *(_of(row, f"{measure}{end}") for end in ("", "_low", "_high")))
                for row in here
                if row["lambda2"] is not None
            ]
            series[f"{init}, paper"] = [
                Point(row["lambda2"], _paper(row, measure)) for row in here if row["lambda2"] is not None
            ]
            levels |= {f"AG, {init}": _of(row, measure) for row in here if row["distance"] == "AG"}
        drawn.append(Panel(label, "λ²", "value (95 % interval)", series, levels, log_x=True, log_y=measure == "mse"))
    return panels(title, drawn)


def failures(title: str, rows: Rows) -> Figure:
    """Tables II, IV: how many images do not converge, beside the paper's share."""
    drawn = []
    for row in (row for row in rows if not row.failed):
        share, theirs = _of(row, "non_converging"), _paper(row, "non_converging")
        ends = (row["non_converging_low"] / row["images"], row["non_converging_high"] / row["images"])
        drawn.append(Bar(_full(row), share, *ends, theirs))
    return bars(title, drawn, "share that does not converge (95 % interval)", "the paper's, of 100 images")


def by_difference(title: str, rows: Rows) -> Figure:
    """What each thing that our runs could do otherwise than P4's code does to the images that fail, and to the rest."""
    drawn = []
    for row in (row for row in rows if not row.failed):
        ends = (row["non_converging_low"] / row["images"], row["non_converging_high"] / row["images"])
        drawn.append(Bar(f"{_name(row)}: {_otherwise(row)}", _of(row, "non_converging"), *ends, _of(row, "ssim")))
    return bars(title, drawn, "share that does not converge (95 % interval)", "mean SSIM of the other images")


def one_image(title: str, rows: Rows) -> Figure:
    """Fig. 1: one image on its way, configuration by configuration."""
    lines = {}
    for row in rows:
        images, iterations = row.result.images, row.result.curves["iteration"]
        steps = sorted({round(i * (len(iterations) - 1) / 5) for i in range(6)})
        tiles = [Tile(images["by iteration"][i].numpy(), f"iteration {iterations[i]:g}") for i in steps]
        lines[_name(row)] = [*tiles, Tile(images["originals"][0].numpy(), "original")]
    return gallery(title, lines)


def reconstructions(title: str, rows: Rows) -> Figure:
    """Figs 4, 6, 7: a few originals, and what each configuration made of them."""
    lines: dict[str, list[Tile]] = {}
    for source in dict.fromkeys(row["data"] for row in rows):
        here = [row for row in rows if row["data"] == source]
        originals = here[0].result.images["originals"]
        lines[f"{_set(here[0])}\noriginal"] = [Tile(image.numpy(), "original") for image in originals]
        for row in here:
            errors = (row.result.images["last"] - originals).square().flatten(1).mean(1).tolist()
            pairs = zip(row.result.images["last"], errors, strict=True)
            lines[f"{_set(row)}\n{_name(row)}"] = [Tile(image.numpy(), f"MSE {error:.2g}") for image, error in pairs]
    return gallery(title, lines)


def _curve(row: Row, measure: str) -> list[Point]:
    """Empty where no image converged."""
    curves = row.result.curves
    columns = ("iteration", measure, f"{measure}_low", f"{measure}_high")
    points = zip(*(curves[name] for name in columns), strict=False)
    return [Point(*(math.nan if value is None else value for value in point)) for point in points]


def _of(row: Row, measure: str) -> float:
    value = row[measure]
    if value is None:
        return math.nan
    return value / row["images"] if measure.startswith("non_converging") else float(value)


def _paper(row: Row, measure: str) -> float:
    """The paper's value; its counts are of 100 images."""
    value = (row.paper or {}).get(measure)
    if value is None:
        return math.nan
    return value / 100 if measure == "non_converging" else float(value)


def _otherwise(row: Row) -> str:
    """What is not as in the tables."""
    weights = {"one": "one network for all", "torch": "torch's initial weights"}
    told = [
        "" if row["loop"] == "side by side" else row["loop"].replace("P4's", "P4's loop"),
        weights.get(row["weights"], ""),
        "" if row["classes"] == 100 else f"{row['classes']} outputs",
        "" if row["form"] == "code" else "as the paper's equation",
    ]
    return ", ".join(filter(None, told)) or "as in the tables"


def _name(row: Row) -> str:
    if (row["init"], row["distance"]) == ("Normal", "Eucl"):
        return "DLG"
    width = "" if row["lambda2"] is None else f" {row['lambda2']:g}"
    return f"{row['init']} / {row['distance']}{width}"


def _set(row: Row) -> str:
    """P4's data set, and what stands for it."""
    return f"{row['dataset']} ({str(row['data']).removeprefix('folder:')})"


def _full(row: Row) -> str:
    return f"{row['dataset']} {_name(row)}, lr {row['lr']:g}"
