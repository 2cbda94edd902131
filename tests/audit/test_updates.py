"""Recorded updates, attacked as they are: a site whose images are here, and one whose images are not."""

import json
from functools import partial

import pytest
import torch
from PIL import Image
from torch import nn

from fluoroscope.attacks import ATTACKS
from fluoroscope.audit.levels import Levels
from fluoroscope.audit.updates import cells as update_cells
from fluoroscope.audit.updates.asked import RECORDED, _order, asked_updates, without_path
from fluoroscope.audit.updates.run import audit_updates
from fluoroscope.cells import Local
from fluoroscope.data import Request, load
from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.federation.client_round import client_round
from fluoroscope.findings import Cell, Score, read_findings
from fluoroscope.integrations.recorded import RecordedUpdates
from fluoroscope.report.audit_report import write_report
from fluoroscope.report.gate import Limit, judge
from fluoroscope.rng import generator
from fluoroscope.site import trials
from fluoroscope.types import LocalTraining, Network, PrivateBatch, Sgd

SIDE = 32
TRAINING = LocalTraining(Sgd(0.05), images=1, batch_size=1)
TOLD = {"lr": 0.05, "batch_size": 1}
HERE = Local(1)


def make():
    """What both sites train."""
    return nn.Sequential(
        nn.Conv2d(1, 24, 3, 2, 1), nn.BatchNorm2d(24), nn.ReLU(),
        nn.Conv2d(24, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Flatten(), nn.Linear(32 * 64, 2),
    )  # fmt: skip


def make_wider():
    return nn.Sequential(nn.Conv2d(1, 25, 3, 2, 1), nn.Flatten(), nn.Linear(25 * 256, 2))


MODEL = f"{__name__}:make"


def here(attack, observations, rng, *, checkpoint=None, seconds=None):
    """Runs an attack in this process: one of its own takes seconds to start."""
    return attack.run(observations, rng, checkpoint=checkpoint)


@pytest.fixture(scope="module", autouse=True)
def one_attack():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trials, "candidates", lambda: {"ridge": ATTACKS.get("ridge")})
        patch.setattr(update_cells, "play", partial(trials.play, run=here))
        yield


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """`updates` of one round; the images of north in `own`, public ones in `public`."""
    folder = tmp_path_factory.mktemp("room")
    held = load("phantom/chest", Request(size=SIDE, channels=1, images=150, seed=1)).batch
    held = PrivateBatch((held.images * 255).round() / 255, held.labels, held.patients)
    sick = [int(i) for i in (held.labels == 1).nonzero()[:, 0]]
    clients = {"north": sick[2], "south": sick[3]}
    for i, (image, label) in enumerate(zip(held.images, held.labels.tolist(), strict=True)):
        if i != clients["south"]:
            place = folder / ("own" if i == clients["north"] else "public") / ("opacity" if label else "normal")
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray((image[0] * 255).round().byte().numpy()).save(place / f"{i:04d}.png")
    torch.manual_seed(0)
    before = {name: value.clone() for name, value in make().state_dict().items()}
    network = Network.of(make(), (1, SIDE, SIDE))
    for name, index in clients.items():
        record = client_round(network, before, held.subset([index]), TRAINING, generator(3, name)).record
        after = {**record.state_after, **(record.buffers_after or {})}
        RecordedUpdates(folder / "updates").write(name, 1, before, after, TRAINING)
        RecordedUpdates(folder / "untold").write(name, 1, before, after)
        pair = folder / "pairs" / name
        pair.mkdir(parents=True)
        torch.save(before, pair / "before.pt")
        torch.save(after, pair / "after.pt")
    return folder


def told(room, **others):
    return {"public": str(room / "public"), "model": MODEL, "images": {"north": str(room / "own")}, **others}


def asked(folder, **given):
    """What an audit asks for that is told no more than this."""
    usual = {key: value for key, value in audit_updates.__kwdefaults__.items() if key not in ("engine", "on_progress")}
    return asked_updates(folder, **(usual | given))


@pytest.fixture(scope="module")
def audited(room):
    out = room / "out"
    audit_updates(room / "updates", out, **told(room), seconds=60, engine=HERE)
    return out


def cell_of(audit, kind, client):
    return next(c for c in audit.findings.cells if (c.kind, c.settings["client"]) == (kind, client))


def test_the_leak_of_a_site_is_found_and_the_other_sites_guess_is_only_told(audited):
    audit = read_findings(audited)  # which checks the whole document
    north, south = (cell_of(audit, "reconstruction", client) for client in ("north", "south"))
    assert north.status == south.status == "done"
    assert north.scores["leak"].value > 0.05
    assert north.scores["p_value"].value <= 0.05
    assert north.scores["found"].value == 1
    assert len(north.gallery) == 1
    assert south.scores["leak"].value is None
    assert south.scores["rehearsal_leak"].low > 0
    assert not south.gallery
    counts = cell_of(audit, "label-counts", "south").scores
    assert counts["guessed opacity"].value == pytest.approx(1, abs=0.3)
    assert counts["gain"].value is None
    (verdict,) = audit.findings.verdicts
    assert verdict.level == "leaks"
    assert "north" in verdict.text.text
    assert any("cannot be checked here" in text.text for text in audit.findings.safe_to_say)
    assert any("south are right" in text.text for text in audit.findings.not_safe_to_say)


def test_findings_name_no_path(room, audited):
    text = (audited / "findings.json").read_text()
    assert str(room) not in text
    assert json.loads(text)["plan"]["images"] == {"north": "own"}


def test_the_page_is_written_and_a_limit_fails_where_a_guess_could_not_be_checked(audited):
    page = write_report(audited).read_text()
    assert "What 2 recorded updates leak" in page
    audit = read_findings(audited)
    judged = judge(audit, [Limit("leak", 5.0)])  # far above any leak
    south = cell_of(audit, "reconstruction", "south").id
    assert [each.missing for each in judged.limits if each.cell == south] == [f"{south} has no value"]
    assert not judged.passed


def test_what_is_finished_is_not_run_again(room, audited, monkeypatch):
    def not_again(*arguments, **settings):
        raise AssertionError("a finished cell was run")

    monkeypatch.setattr(update_cells, "prepare", not_again)
    before = (audited / "findings.json").read_text()
    audit_updates(room / "updates", audited, **told(room), seconds=60, engine=HERE)
    assert (audited / "findings.json").read_text() == before


def test_without_any_sites_images_nothing_is_said_to_leak(room, tmp_path):
    audit = audit_updates(room / "updates", tmp_path, **told(room, images={}), seconds=30, engine=HERE)
    assert {cell.status for cell in audit.findings.cells} == {"done"}
    (verdict,) = audit.findings.verdicts
    assert verdict.level == "unclear"
    assert "simulated clients" in verdict.text.text


def test_a_damaged_update_fails_alone_and_names_no_path(room, tmp_path):
    RecordedUpdates(tmp_path / "updates").write("north", 1, *RecordedUpdates(room / "untold").load(1, "north"))
    RecordedUpdates(tmp_path / "updates").write("south", 1, *RecordedUpdates(room / "untold").load(1, "south"))
    (tmp_path / "updates/rounds/0001/south/after.safetensors").write_bytes(b"nothing")
    given = told(room, holds={"south": 1}, training=TOLD)
    audit = audit_updates(tmp_path / "updates", tmp_path / "out", **given, seconds=30, engine=HERE)
    south, north = (cell_of(audit, "label-counts", client) for client in ("south", "north"))
    assert (south.status, north.status) == ("failed", "done")
    assert "damaged" in south.reason
    assert str(tmp_path) not in south.reason


def test_pairs_of_checkpoints_are_read_too(room):
    found = asked(room / "pairs", **told(room, training=TOLD, holds={"south": 1}))
    assert [(each.client, each.round) for each in found.updates] == [("north", 1), ("south", 1)]


def test_of_how_many_images_must_be_known(room, tmp_path):
    given = told(room, images={}, training=TOLD)
    audit = audit_updates(room / "untold", tmp_path, **given, engine=HERE)
    assert {cell.status for cell in audit.findings.cells} == {"failed"}
    assert "--holds north=NUMBER" in audit.findings.cells[0].reason
    assert audit.findings.verdicts[0].level == "not tested"


def test_what_the_budget_has_no_time_for_is_left_out_and_named(room, tmp_path):
    audit = audit_updates(room / "updates", tmp_path, **told(room), budget_minutes=1e-9, engine=HERE)
    assert {cell.status for cell in audit.findings.cells} == {"left out"}
    assert len(audit.findings.left_out) == 4


def test_a_told_defence_is_a_setting_of_its_own_beside_none(room):
    found = asked(room / "updates", **told(room, defences=[("pruning", {"sparsity": 0.5})]))
    assert list(found.labels) == ["none", RECORDED]
    assert {cell.label for cell in found.cells} == {RECORDED}
    assert found.own == RECORDED


def test_behind_a_told_defence_nothing_is_said_of_updates_without_one(room, tmp_path):
    given = told(room, images={}, defences=[("pruning", {"sparsity": 0.1})])
    audit = audit_updates(room / "updates", tmp_path, **given, seconds=30, engine=HERE)
    (verdict,) = audit.findings.verdicts
    assert verdict.text.text.startswith(f"With “{RECORDED}”: An attack")
    assert {each.defence: each.level for each in verdict.levels} == {"none": "not tested", RECORDED: "unclear"}
    assert judge(audit, []).defence == RECORDED
    assert any(f"“{RECORDED}” helps" in text.text for text in audit.findings.not_safe_to_say)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"images": {"east": "own"}}, Misconfigured, "has no update of 'east'; it has some of north, south"),
        ({"training": TOLD}, Misconfigured, "says how it was trained"),
        ({"model": None}, Misconfigured, "no record names its network"),
        ({"model": f"{__name__}:make_wider"}, BadInput, "north in round 1"),
        ({"model": "lenet5"}, BadInput, "is this its model"),
        ({"defences": [("prunning", {})]}, Misconfigured, "prunning"),
    ],
)
def test_wrong_input_is_named_before_anything_runs(room, changes, error, message):
    with pytest.raises(error, match=message):
        asked(room / "updates", **told(room, **changes))


def test_the_first_and_the_last_round_come_first():
    assert _order([1, 2, 3, 4]) == [1, 4, 3, 2]
    assert _order([5]) == [5]


def test_sources_lose_their_path():
    assert without_path("folder:/home/anna/nih") == "folder:nih"
    assert without_path("/home/anna/nih/") == "nih"
    assert without_path("phantom/chest") == "phantom/chest"


def cell(label, **scores):
    return Cell(
        id=label,
        kind="reconstruction",
        threat="curious-server",
        defence=label,
        settings={"attack": "auto", "client": "north", "round": 1},
        status="done",
        scores=scores,
    )


def test_a_guess_that_cannot_be_checked_is_unclear_whatever_the_rehearsal_says():
    sure = Score(value=0.5, low=0.4, high=0.6)
    judged = Levels([cell("none", leak=Score(value=None), rehearsal_leak=sure)]).of("curious-server", "none")
    assert (judged.level, judged.why) == ("unclear", "unchecked")


def test_nothing_holds_without_an_update_that_was_not_defended():
    tiny = {
        "leak": Score(value=0.0, low=-0.001, high=0.001),
        "p_value": Score(value=0.9),
        "line_up": Score(value=0.25, low=0.2, high=0.3, chance=0.25),
    }
    judged = Levels([cell(RECORDED, **tiny)]).of("curious-server", RECORDED)
    assert (judged.level, judged.why) == ("unclear", "no comparison")
