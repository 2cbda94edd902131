"""A folder as an audit leaves it: every kind of cell, three threats, four defences, phantoms in the gallery."""

import json
import math
from pathlib import Path

import numpy as np
from PIL import Image

from fluoroscope.data import Request, load

DEFENCES = {"none": 0.0, "percentile-gaussian 0.05": 0.35, "clip-and-noise 0.5": 0.75, "dp-sgd ε=8": 1.0}
"""How much of the leak each stops, in this tale."""
CLIENTS = ("north", "south", "west")


def make_audit(folder: Path, synthetic: bool = True, stopped: float = 1.0) -> Path:
    """The folder, written; `stopped` scales what the defences stop."""
    cells = _cells(folder, stopped)
    places = {cell["id"]: i for i, cell in enumerate(cells)}
    (folder / "findings.json").write_text(json.dumps(_findings(cells, places, synthetic), indent=1), encoding="utf-8")
    timing = {
        "seconds": {cell["id"]: 1.5 + i for i, cell in enumerate(cells)},
        "total": 321.0,
        "machine": "2 cores, no GPU",
        "budget_minutes": 10,
    }
    (folder / "timing.json").write_text(json.dumps(timing))
    return folder


def make_large(folder: Path, clients: int = 20, defences: int = 6) -> Path:
    """The same tale of many hospitals and settings: a folder as large as anybody's, a picture strip in every cell."""
    make_audit(folder)
    document = json.loads((folder / "findings.json").read_text(encoding="utf-8"))
    names = [f"hospital-{i:02d}" for i in range(len(CLIENTS), clients)]
    shown = next(cell["gallery"] for cell in document["cells"] if cell["gallery"])
    like = [cell for cell in document["cells"] if cell["settings"].get("client") == CLIENTS[-1]]
    for name in names:
        for cell in like:
            here = {**cell["settings"], "client": name}
            document["cells"].append({**cell, "id": f"{cell['id']}-{name}", "settings": here})
        document["data"]["clients"].append({**document["data"]["clients"][-1], "name": name})
    second = list(DEFENCES)[1]
    for number in range(len(DEFENCES), defences):
        label = f"setting {number}"
        document["defences"].append({**document["defences"][1], "label": label})
        cells = [cell for cell in document["cells"] if cell["defence"] == second]
        document["cells"] += [{**cell, "id": f"{cell['id']}-{number}", "defence": label} for cell in cells]
        for verdict in document["verdicts"]:
            verdict["levels"].append({**verdict["levels"][1], "defence": label})
    for cell in document["cells"]:
        if cell["kind"] == "reconstruction" and cell["status"] == "done":
            cell["gallery"] = 3 * shown
    (folder / "findings.json").write_text(json.dumps(document), encoding="utf-8")
    return folder


def pictures(count: int = 2, size: int = 64) -> list[np.ndarray]:
    """Chest phantoms, (size, size) in [0, 255]."""
    images = load("phantom/chest", Request(size=size, images=count, seed=3)).batch.images
    return [(image[0].numpy() * 255).astype(np.uint8) for image in images]


def score(value, width=0.05, n=8, chance=None, leaky=True):
    ends = {"low": value - width, "high": value + width} if width else {"low": None, "high": None}
    return {"value": value, **ends, "n": n, "chance": chance, "higher_is_leakier": leaky}


def _cell(name, kind, threat, defence, settings, scores=None, **more):
    cell = {"id": name, "kind": kind, "threat": threat, "defence": defence, "settings": settings, "status": "done"}
    return {**cell, "reason": None, "scores": scores or {}, "curves": {}, "gallery": [], "verdicts": [], **more}


def _cells(folder, stopped):
    cells = []
    for number, (label, share) in enumerate(DEFENCES.items()):
        held = min(1.0, share * stopped)
        cells.append(_federation(number, label, held))
        for c, client in enumerate(CLIENTS):
            for r in (1, 5, 10):
                name = f"reconstruction-{number}-{client}-{r}"
                value = (0.42 - 0.09 * c - 0.02 * r) * (1 - held) - 0.08 * held
                scores = {"leak": score(0.95 * value if held < 1 else 0.0, 0.05 if held < 1 else 0.015)}
                scores["told_apart"] = score(0.125 + 0.75 * (1 - held), 0.1, chance=0.125)
                scores["line_up"] = score(0.25 + 0.7 * (1 - held), 0.1, chance=0.25)
                scores["found"] = score(round(1 + 6 * (1 - held)), 0)
                scores |= {"rdlv": score(value), "null": score(value - 0.95 * value, leaky=None)}
                scores["p_value"] = score(0.001 if held < 1 else 0.6, 0, leaky=None)
                scores |= {"ssim": score(0.3 + value), "iip": score(0.8 * (1 - held) + 0.02, 0.02)}
                scores["recognised"] = score(round(8 * (1 - held)), 0)
                scores["images"] = score(8, 0, leaky=None)
                gallery = _gallery(folder, name, held) if r == 10 and c == 0 else []
                settings = {"attack": "epochwise", "client": client, "round": r}
                cell = _cell(name, "reconstruction", "curious-server", label, settings, scores, gallery=gallery)
                if gallery:
                    cell["curves"] = _tsne(held)
                cells.append(cell)
        for client in CLIENTS[:2]:
            auc = 0.5 + 0.4 * (1 - held) - (0.05 if client == "south" else 0)
            scores = {"auc": score(auc, chance=0.5), "advantage": score(max(0.0, 2 * auc - 1), chance=0.0)}
            name, settings = f"client-inference-{number}-{client}", {"attack": "update-distance", "client": client}
            curve = {"roc": _roc(auc)}
            cells.append(_cell(name, "client-inference", "curious-client", label, settings, scores, curves=curve))
        scores = {"auc": score(0.5 + 0.15 * (1 - held), chance=0.5)}
        curve = {"roc": _roc(0.65)}
        cells.append(_cell(f"membership-{number}", "membership", "curious-client", label, {}, scores, curves=curve))
        scores = {"accuracy": score(1 / 3 + 0.2 * (1 - held), chance=1 / 3)}
        cells.append(_cell(f"source-{number}", "source", "curious-client", label, {}, scores))
    scores = {"rate": score(0.91, 0.04), "recovered": score(29, 0), "images": score(32, 0, leaky=None)}
    scores["psnr"] = score(41.3, 2.1)
    settings = {"attack": "medileak", "client": "north", "round": 1}
    cells.append(_cell("crafted-none", "crafted-model", "malicious-server", "none", settings, scores))
    verdicts = [{"client": "north", "refused": True, "reasons": ["placement: a dense layer reads a whole picture"]}]
    verdicts.append({"client": "south", "refused": False, "reasons": []})
    scores = {"refused": score(1, 0, leaky=False), "clients": score(2, 0, leaky=None)}
    settings = {"attack": "medileak"}
    cells.append(_cell("guard-none", "guard", "malicious-server", "none", settings, scores, verdicts=verdicts))
    settings = {"attack": "medileak", "client": "north", "round": 1}
    failed = _cell("crafted-dp", "crafted-model", "malicious-server", "dp-sgd ε=8", settings, status="failed")
    cells.append({**failed, "reason": "the loss became infinite in round 1"})
    left = _cell("span-dp", "reconstruction", "curious-server", "dp-sgd ε=8", {"attack": "span"}, status="left out")
    cells.append({**left, "reason": "the budget of 10 minutes was spent"})
    settings = {"attack": "span", "client": "south", "round": 1}
    scores = {"gave_up": score(8, 0, leaky=None), "images": score(8, 0, leaky=None)}
    quiet = _cell("span-south", "reconstruction", "curious-server", "none", settings, scores, status="gave up")
    cells.insert(len(cells) - 3, {**quiet, "reason": "the update has no step that span can read"})
    return cells


def _federation(number, label, held):
    rounds = list(range(1, 11))
    accuracy = [0.9 - 0.25 * held - 0.4 * math.exp(-r / 2) for r in rounds]
    distance = [2.0 / r + held for r in rounds]
    band = {"low": [a - 0.02 for a in accuracy], "high": [a + 0.02 for a in accuracy]}
    curves = {
        "accuracy": {"x": rounds, "y": accuracy, **band, "x_label": "round", "y_label": "accuracy"},
        "distance": {"x": rounds, "y": distance, "x_label": "round", "y_label": "distance d"},
    }
    scores = {"accuracy": score(accuracy[-1], 0.02, leaky=None), "f1": score(accuracy[-1] - 0.03, 0.03, leaky=None)}
    if "dp-sgd" in label:
        epsilon = [8 * math.sqrt(r / 10) for r in rounds]
        curves["epsilon"] = {"x": rounds, "y": epsilon, "x_label": "round", "y_label": "ε"}
        scores["epsilon"] = score(8.0, 0)
    return _cell(f"federation-{number}", "federation", None, label, {}, scores, curves=curves)


def _gallery(folder, name, held):
    (folder / "gallery").mkdir(parents=True, exist_ok=True)
    shown = []
    rng = np.random.default_rng(0)
    for i, original in enumerate(pictures()):
        prior = np.full_like(original, int(original.mean()))
        noise = rng.normal(0, 90, original.shape)
        mixed = (1 - held) * original + held * (prior + noise) + 12 * (1 - held) * rng.normal(0, 1, original.shape)
        images = {"original": original, "prior": prior, "reconstruction": np.clip(mixed, 0, 255).astype(np.uint8)}
        for stage, image in images.items():
            Image.fromarray(image).save(folder / f"gallery/{name}-{i}-{stage}.png")
        paths = {stage: f"gallery/{name}-{i}-{stage}.png" for stage in images}
        scores = {"ssim": 0.91 - 0.8 * held, "rdlv": 0.4 - 0.5 * held}
        shown.append({**paths, "caption": f"Image {'AB'[i]} of this client", "scores": scores})
    return shown


def _roc(auc):
    power = (1 - auc) / auc
    xs = [i / 20 for i in range(21)]
    ys = [x**power for x in xs]
    return {"x": xs, "y": ys, "x_label": "false positive rate", "y_label": "true positive rate"}


def _tsne(held):
    rng = np.random.default_rng(1)
    groups = {"tsne originals": rng.normal(0, 1, (20, 2)), "tsne reconstructions": rng.normal(4 * held, 1, (8, 2))}
    return {
        name: {"x": p[:, 0].tolist(), "y": p[:, 1].tolist(), "x_label": "t-SNE 1", "y_label": "t-SNE 2"}
        for name, p in groups.items()
    }


KINDS = {
    "curious-server": {"reconstruction": "reconstruction-{}-north-1"},
    "malicious-server": {"crafted-model": "crafted-none"},
    "curious-client": {"client-inference": "client-inference-{}-north", "membership": "membership-{}"},
    "outsider": {},
}
"""The kinds of attack of each threat in this tale, and the cell that decides."""


def _levels(threat, levels, why):
    return [
        {
            "defence": label,
            "level": level,
            "why": why,
            "kinds": [
                {"kind": kind, "level": level, "why": why, "cell": cell.format(number)}
                for kind, cell in KINDS[threat].items()
            ],
        }
        for number, (label, level) in enumerate(zip(DEFENCES, levels, strict=True))
    ]


def as_format_1(document):
    """The same audit as versions wrote it that compared no score with its null."""
    older = json.loads(json.dumps(document))
    older["format"] = 1
    del older["sizes"]
    for verdict in older["verdicts"]:
        del verdict["levels"]
    older["cells"] = [cell for cell in older["cells"] if cell["status"] != "gave up"]
    for cell in older["cells"]:
        for name in ("leak", "told_apart", "line_up", "found", "null"):
            cell["scores"].pop(name, None)
        if cell["kind"] == "reconstruction":
            cell["scores"].pop("p_value", None)
    older["verdicts"][0]["text"] = {"text": "A curious server recovers images.", "numbers": []}
    return older


def _findings(cells, places, synthetic):
    def number(cell, metric, end="value", how=".2f"):
        return {"pointer": f"/cells/{places[cell]}/scores/{metric}/{end}", "format": how}

    def text(words, *numbers):
        return {"text": words, "numbers": list(numbers)}

    first, safe = "reconstruction-0-north-1", "reconstruction-3-north-1"
    leaks = text(
        "From {0} of {1} patients in the place of north the server recovered an image that is told apart from other "
        "patients' ({2} of what it recovered is).",
        number(first, "found", how=".0f"), number(first, "images", how=".0f"),
        number(first, "told_apart", how=".0%"),
    )  # fmt: skip
    holds = text("Other clients name whose update they see in {0} of cases, as guessing would.",
                 number("client-inference-3-south", "auc", how=".0%"))  # fmt: skip
    crafted = text("A model that the server changed reads {0} of a batch out of one update.",
                   number("crafted-none", "rate", how=".0%"))  # fmt: skip
    untested = text("Nobody tried to tell from which hospital an image came through timing.")
    threats = {
        "curious-server": "A curious server",
        "malicious-server": "A malicious server",
        "curious-client": "A curious client",
        "outsider": "An outsider",
    }
    claim = {"epsilon": None, "delta": None, "unit": None, "statement": "not differential privacy"}
    proven = {"epsilon": 8.0, "delta": 1e-5, "unit": "record", "statement": "differential privacy"}
    return {
        "format": 2,
        "title": "Chest X-rays of three hospitals: what the federation leaks",
        "seed": 7,
        "preset": "quick",
        "plan": {"rounds": 10, "data": {"source": "phantom/chest", "size": 64}, "note": "<b>not markup</b>"},
        "versions": {"fluoroscope": "0.1.0", "torch": "2.13.0"},
        "data": {
            "name": "phantom/chest",
            "licence": "synthetic, Apache-2.0",
            "synthetic": synthetic,
            "images": 240,
            "size": 64,
            "classes": ["clear", "opacity"],
            "clients": [
                {"name": name, "train": 8 * (i + 1), "validation": 4, "batch_size": 8 if i else None}
                for i, name in enumerate(CLIENTS)
            ],
        },
        "defences": [
            {"label": label, "parts": [], "claim": proven if "dp-sgd" in label else claim} for label in DEFENCES
        ],
        "threats": [
            {
                "name": name,
                "title": title,
                "assumed": ["Sees each client's update by itself.", "Knows the architecture and the batch size."],
                "can": ["read updates"],
                "cannot": ["Change the model that is sent to the clients."],
            }
            for name, title in threats.items()
        ],
        "verdicts": [
            {"threat": name, "level": of[0], "text": words, "stopped_by": stop, "levels": _levels(name, of, words)}
            for name, of, words, stop in (
                ("curious-server", ("leaks", "leaks", "unclear", "holds"), leaks, "dp-sgd ε=8"),
                ("malicious-server", ("unclear",) * 3 + ("holds",), crafted, None),
                ("curious-client", ("holds",) * 4, holds, None),
                ("outsider", ("not tested",) * 3 + ("holds",), untested, None),
            )
        ],
        "sizes": [
            {"kind": "reconstruction", "metric": "leak", "most": 0.02, "of": "value"},
            {"kind": "reconstruction", "metric": "line_up", "most": 2.0, "of": "times chance"},
            {"kind": "client-inference", "metric": "auc", "most": 0.1, "of": "above chance"},
        ],
        "recommendation": {
            "defence": "dp-sgd ε=8",
            "text": text(
                "It is the weakest setting under which no attack gained anything. RDLV falls to {0}; accuracy goes "
                "from {1} to {2}.",
                number(safe, "rdlv"), number("federation-0", "accuracy"), number("federation-3", "accuracy"),
            ),
        },
        "safe_to_say": [text("Against the attacks listed here, dp-sgd ε=8 left an upper RDLV of {0}.",
                             number(safe, "rdlv", "high"))],
        "not_safe_to_say": [text("That no attack can ever recover an image."),
                            text("That the data are anonymous.")],
        "cells": cells,
        "left_out": ["Attacks on several rounds together were not tried."],
    }  # fmt: skip
