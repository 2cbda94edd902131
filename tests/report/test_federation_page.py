"""The page of a federation, from plain data alone."""

from dataclasses import replace

from fluoroscope.report.federation_page import Origin, federation_page

ORIGIN = Origin("folder/mine", "ours", "resnet18", 2, 7, '{"rounds": 2}', "run", {"torch": "2"})
SCORED = {"accuracy": 0.75, "f1": 0.7, "precision": 0.7, "auc": 0.8, "loss": 0.4, "images": 40}


def summary(rounds=2):
    entry = {"loss": 0.5, "recorded": True, "update_norm": 2.5}
    row = {"part": "client-1", "batch_size": 8, "train": 9, "validation": 2, "patients": 11, "classes": {"a": 9}}
    return {
        "clients": [row],
        "rounds": [
            {
                "round": r,
                "seconds": 1.0,
                "validation_accuracy": 0.5,
                "validation": {"client-1": 0.5},
                "clients": {"client-1": entry, "client-2": {**entry, "recorded": False, "update_norm": None}},
            }
            for r in range(1, rounds + 1)
        ],
        "test": {"best_round": 2, "best": SCORED, "last": SCORED},
    }


def test_it_says_who_trained_what_and_how_well():
    page = federation_page(summary(), ORIGIN)
    assert "2 hospitals trained resnet18 together for 2 rounds on folder/mine. 2 of their updates were recorded" in page
    assert "The best model is right on 75% of 40 test images." in page
    for fact in ("ours", "torch", "&#34;rounds&#34;: 2"):
        assert fact in page


def test_images_are_on_it_only_where_they_were_given():
    assert "The images" not in federation_page(summary(), ORIGIN)
    assert "data:image/png;base64,UE5H" in federation_page(summary(), replace(ORIGIN, sheet=b"PNG"))
