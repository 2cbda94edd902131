"""A site's policy before MONAI's client: one update is sent, one withheld, one model refused, all in the ledger."""

import warnings

import pytest
import torch
from monai.transforms import LoadImage

from fluoroscope.errors import Refused
from fluoroscope.integrations.site_filter import opened
from fluoroscope.site.ledger import read_ledger, verify_ledger
from fluoroscope.site.opening import open_site

from .bundle import BATCH, NETWORK, RATE, sent, write_phantoms

POLICY = f"""
[limits]
label-counts = {{limit}}
[override.reconstruction]
when_not_judged = "send"
[site]
images = "folder:images"
public = "folder:public"
size = 28
channels = 1
ledger = "ledger.jsonl"
seconds = 60
[model]
factory = "monai.networks.nets:Classifier"
arguments = {{{{ {", ".join(f"{name} = {value}" for name, value in NETWORK.items())} }}}}
[training]
optimiser = "sgd"
lr = {RATE}
batch_size = {BATCH}
"""


@pytest.fixture
def ledger(tmp_path, monkeypatch):
    """What stands in it, line by line; attacks on images would take the minute that the policy allows."""
    monkeypatch.setattr("fluoroscope.site.trials.candidates", dict)
    opened.cache_clear()
    write_phantoms(tmp_path / "site" / "public", {"normal": 12, "opacity": 12}, first=10)

    def lines():
        path = tmp_path / "site" / "ledger.jsonl"
        assert not verify_ledger(path).broken
        assert "site" not in path.read_text(), "no path"
        return list(read_ledger(path))

    yield lines
    opened.cache_clear()


def test_images_are_as_monais_reader_gives_them(ledger, tmp_path):
    """It swaps rows and columns, unless it is told not to."""
    path = write_phantoms(tmp_path / "site" / "images", {"normal": 1, "opacity": 1}) / "normal" / "0.png"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        seen = LoadImage(reader="PILReader", ensure_channel_first=True)(path)
    write_policy(tmp_path, 1, "transposed = true\n")
    own = open_site(tmp_path / "site" / "appetite.toml").subject.own()
    torch.testing.assert_close(own.images[0], seen.as_tensor() / 255)


def write_policy(tmp_path, limit: float, more: str = "") -> None:
    text = POLICY.format(limit=limit).replace("size = 28\n", f"size = 28\n{more}")
    (tmp_path / "site" / "appetite.toml").write_text(text)


def test_an_update_within_the_limits_is_sent_and_recorded(start, model, ledger, tmp_path):
    client = start()
    write_policy(tmp_path, 1)
    client.train(sent(model))
    left = client.get_weights()
    assert left.weights.keys() == model.keys()
    came, gone = ledger()
    assert (came.direction, came.decision, came.guard.ran) == ("in", "send", True)
    assert (gone.direction, gone.before) == ("out", came.before)
    counts = {each.leak: each for each in gone.meter}["label-counts"]
    assert 0.2 < counts.value <= 1, "three of one class and one of the other, where public shares are even"
    assert gone.decision == ("warn" if counts.value > 0.8 else "send")  # near the limit, it says so


def test_the_same_update_is_withheld_where_the_site_allows_less(start, model, ledger, tmp_path):
    client = start()
    write_policy(tmp_path, 0.2)
    client.train(sent(model))
    with pytest.raises(Refused, match="fluoroscope withheld this update"):
        client.get_weights()
    gone = ledger()[-1]
    assert (gone.direction, gone.decision, gone.leaving) == ("out", "withhold", None)
    counts = {each.leak: each for each in gone.meter}["label-counts"]
    assert gone.reasons[-1] == f"label-counts: {counts.value:.3g} is above the limit of 0.2."


def test_a_crafted_model_is_refused_whatever_it_is_sent_for(start, model, ledger, tmp_path):
    """Fishing: the biases alone decide, so that all of the gradient comes from one class."""
    client = start(send_weight_diff=False)
    write_policy(tmp_path, 1)
    crafted = {**model, "final.1.bias": torch.tensor([0.0, 100.0])}
    for asked in (client.train, client.evaluate):
        with pytest.raises(Refused, match="fluoroscope refused this model"):
            asked(sent(crafted))
    with pytest.raises(Refused):
        client.get_weights()
    assert client.trainer.state.iteration == client.evaluator.state.iteration == 0
    came, gone = ledger()
    assert (came.direction, came.decision, came.guard.checks) == ("in", "withhold", ("classifier",))
    assert (gone.direction, gone.decision) == ("out", "withhold")
