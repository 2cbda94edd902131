"""The page of a federation: who trained what, how well, and what left each hospital."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fluoroscope.report.figures import Series, lines
from fluoroscope.report.page import Picture, Section, Table, render


@dataclass(frozen=True)
class Origin:
    """Whose federation it was, and what would train it again."""

    data: str
    licence: str
    model: str
    clients: int
    seed: int
    plan: str
    """As JSON."""
    records: str
    """The folder's name."""
    versions: Mapping[str, str]
    sheet: bytes | None = None
    """A few of the images as PNG, where anybody may see them."""


def federation_page(summary: dict[str, Any], origin: Origin) -> str:
    """The page as HTML, from what `federation_summary` gave."""
    rounds, test = summary["rounds"], summary["test"]
    scored = test["best"] or test["last"]
    records = sum(client["recorded"] for row in rounds for client in row["clients"].values())
    lead = (
        f"{origin.clients} hospitals trained {origin.model} together for {len(rounds)} rounds on "
        f"{origin.data}. {records} of their updates were recorded, as a curious server would see them."
    )
    if scored:
        which = "best" if test["best"] else "last"
        lead += f" The {which} model is right on {scored['accuracy']:.0%} of {scored['images']} test images."
    sections = [
        Section(
            "Who holds what",
            "No patient is in two places, except where the split shares one on purpose.",
            [_client_table(summary["clients"])],
        ),
        Section(
            "How well the federation learns",
            "Accuracy of the global model on each hospital's own validation images, after every round.",
            [
                Picture(
                    lines(_accuracies(rounds), "round", "validation accuracy", bold="mean"),
                    "Validation accuracy by round, one line a hospital and their mean.",
                ),
                _test_table(test),
            ],
        ),
        Section(
            "What leaves each hospital",
            "The length of the update that each hospital sent. An update is what an attacker works from: the fewer "
            "images behind it, the more each of them shows in it.",
            [
                Picture(
                    lines(_norms(rounds), "round", "L2 norm of the update", log=True),
                    "Size of every hospital's update by round, on a logarithmic scale.",
                )
            ],
        ),
    ]
    if origin.sheet is not None:
        encoded = base64.b64encode(origin.sheet).decode()
        picture = Picture(f"data:image/png;base64,{encoded}", f"A few images of {origin.data}, by class.")
        sections.append(Section("The images", "Phantoms: nobody's anatomy.", [picture]))
    facts = {
        "seed": origin.seed,
        "records": origin.records,
        "licence of the images": origin.licence,
        **origin.versions,
        "plan": origin.plan,
    }
    return render("A federation, recorded", lead, sections, facts)


def _accuracies(rounds: list[dict[str, Any]]) -> Series:
    evaluated = [row for row in rounds if row["validation"]]
    names = dict.fromkeys(name for row in evaluated for name in row["validation"])
    series = {
        name: [(row["round"], row["validation"][name]) for row in evaluated if name in row["validation"]]
        for name in names
    }
    return series | {"mean": [(row["round"], row["validation_accuracy"]) for row in evaluated]}


def _norms(rounds: list[dict[str, Any]]) -> Series:
    names = dict.fromkeys(name for row in rounds for name in row["clients"])
    return {
        name: [
            (row["round"], row["clients"][name]["update_norm"])
            for row in rounds
            if name in row["clients"] and row["clients"][name]["recorded"]
        ]
        for name in names
    }


def _client_table(rows: list[dict[str, Any]]) -> Table:
    classes = list(rows[0]["classes"])
    keys = ["part", "batch_size", "train", "validation", "patients"]
    return Table(
        [key.replace("_", " ") for key in keys] + classes,
        [[*(row[key] for key in keys), *row["classes"].values()] for row in rows],
    )


def _test_table(test: dict[str, Any]) -> Table:
    keys = ("accuracy", "f1", "precision", "auc", "loss", "images")
    models = {f"best by validation (round {test['best_round']})": test["best"], "last round": test["last"]}
    return Table(
        ["on the test images", *keys],
        [[name, *(scored[key] for key in keys)] for name, scored in models.items() if scored],
    )
