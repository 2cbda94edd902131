"""Joins the stages: the only module that knows them all."""

import base64
import json
import tempfile
from pathlib import Path
from typing import Any

from fluoroscope.data.contact_sheet import contact_sheet
from fluoroscope.data.partition import split_table
from fluoroscope.federation.store import RecordStore
from fluoroscope.federation.task import Task
from fluoroscope.report.figures import Series, lines
from fluoroscope.report.page import Picture, Section, Table, render


def federation_summary(task: Task, store: RecordStore) -> dict[str, Any]:
    """A finished federation as plain data: what `--json` prints and the page shows."""
    rounds = [r for r in store.rounds() if r > 0]
    result = json.loads((store.folder / "result.json").read_text())
    return {
        "clients": split_table(task.images, task.partition),
        "rounds": [
            {
                "round": r,
                "seconds": store.seconds(r),
                "validation_accuracy": store.manifest(r).validation_accuracy,
                "validation": {name: scored["accuracy"] for name, scored in store.manifest(r).validation.items()},
                "clients": {
                    name: {
                        "loss": entry.loss,
                        "recorded": entry.recorded,
                        "update_norm": _update_norm(store, r, name) if entry.recorded else None,
                    }
                    for name, entry in store.manifest(r).clients.items()
                },
            }
            for r in rounds
        ],
        "test": {"best_round": result["best_round"], "best": result["best"], "last": result["last"]},
    }


def federation_page(task: Task, store: RecordStore, summary: dict[str, Any]) -> str:
    """The first page of results: who trained what, how well, and what left each hospital."""
    plan, rounds, test = task.plan, summary["rounds"], summary["test"]
    scored = test["best"] or test["last"]
    records = sum(client["recorded"] for row in rounds for client in row["clients"].values())
    lead = (
        f"{len(task.clients)} hospitals trained {plan.model.name} together for {len(rounds)} rounds on "
        f"{task.images.name}. {records} of their updates were recorded, as a curious server would see them."
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
    if task.images.synthetic:  # patients' images are never put on a page unasked
        sections.append(Section("The images", "Phantoms: nobody's anatomy.", [_sheet(task)]))
    header = store.header
    facts = {
        "seed": plan.seed,
        "records": store.folder.name,
        "licence of the images": task.images.licence,
        **header.versions,
        "plan": plan.model_dump_json(),
    }
    return render("A federation, recorded", lead, sections, facts)


def _update_norm(store: RecordStore, server_round: int, client: str) -> float:
    arrays = store.load(server_round, client).arrays
    return float(sum(float(value.double().square().sum()) for value in arrays.values()) ** 0.5)


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


def _sheet(task: Task) -> Picture:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sheet.png"
        contact_sheet(task.images, path)
        encoded = base64.b64encode(path.read_bytes()).decode()
    return Picture(f"data:image/png;base64,{encoded}", f"A few images of {task.images.name}, by class.")
