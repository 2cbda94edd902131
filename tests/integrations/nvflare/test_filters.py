"""The filters with NVFlare's own messages: what may pass does, and everything else is blocked with one sentence."""

import numpy as np
import pytest
import torch

pytest.importorskip("nvflare")

from nvflare.apis.analytix import AnalyticsDataType
from nvflare.apis.dxo import DXO, DataKind, MetaKey, from_shareable
from nvflare.apis.event_type import EventType
from nvflare.apis.filter import ContentBlockedException
from nvflare.apis.fl_constant import FLContextKey, ReservedKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.app_common.app_constant import AppConstants

from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.integrations.nvflare import Defend, Guard, Meter, Record
from fluoroscope.integrations.recorded import RecordedUpdates
from fluoroscope.site.decision import Decision

from ..doors import WITHHOLD

GLOBAL = {"w": np.array([1.0, 2.0], np.float32), "n": np.array(3)}
TRAINED = {"w": np.array([1.5, 2.5], np.float32), "n": np.array(4)}


def message(data, kind=DataKind.WEIGHTS, round=2, **meta) -> Shareable:
    made = DXO(kind, dict(data), meta).to_shareable()
    made.set_header(AppConstants.CURRENT_ROUND, round)
    return made


def task_context(task="task-1") -> FLContext:
    fl_ctx = FLContext()
    fl_ctx.set_prop(ReservedKey.RUN_NUM, "job-7", private=False, sticky=False)
    fl_ctx.set_prop(ReservedKey.IDENTITY_NAME, "north", private=False, sticky=False)
    fl_ctx.set_prop(FLContextKey.TASK_ID, task, private=True, sticky=False)
    return fl_ctx


@pytest.fixture
def fl_ctx(door):
    """After a Guard has let the global model in."""
    made = task_context()
    Guard("appetite.toml").process(message(GLOBAL), made)
    return made


@pytest.fixture
def why(caplog):
    """Blocks a message, and gives the one line of the site's log about it."""

    def blocked(filter, message, fl_ctx) -> str:
        caplog.clear()
        with pytest.raises(ContentBlockedException, match="the site's own log") as caught:
            filter.process(message, fl_ctx)
        assert caught.value.__context__ is None, "NVFlare would log the whole chain, for the server to read"
        (record,) = caplog.records
        assert record.levelname == "WARNING", "errors are streamed to the server"
        return record.getMessage()

    return blocked


def arrays(result: Shareable) -> dict:
    return from_shareable(result).data


def test_a_model_that_is_admitted_passes_as_it_is(door):
    task = message(GLOBAL)
    assert Guard("appetite.toml").process(task, task_context()) is task
    ((state, run, round),) = door.came
    assert (run, round) == ("job-7", 2)
    assert torch.equal(state["w"], torch.tensor([1.0, 2.0]))


def test_a_model_that_is_not_admitted_is_blocked_and_not_kept(door, why):
    door.admits = WITHHOLD
    fl_ctx = task_context()
    said = why(Guard("appetite.toml"), message(GLOBAL), fl_ctx)
    assert "refused this model: reconstruction: 0.3 is above the limit of 0.02." in said
    assert "was not kept" in why(Meter("appetite.toml"), message(TRAINED), fl_ctx)
    assert not door.left


def test_an_update_that_may_leave_is_compared_with_the_model_of_its_task(door, fl_ctx):
    result = message(TRAINED, NUM_STEPS_CURRENT_ROUND=5, initial_metrics={"loss": 0.4})
    left = Meter("appetite.toml").process(result, fl_ctx)
    ((before, after, run, round),) = door.left
    assert (run, round) == ("job-7", 2)
    assert before["w"].tolist() == [1.0, 2.0]
    assert after["w"].tolist() == [1.5, 2.5]
    assert arrays(left)["w"] is result["DXO"]["data"]["w"]
    assert from_shareable(left).meta == {"NUM_STEPS_CURRENT_ROUND": 5, "initial_metrics": {"loss": 0.4}}
    assert left.get_header(AppConstants.CURRENT_ROUND) == 2


def test_training_in_place_does_not_change_the_model_before(door):
    own = {"w": np.array([1.0, 2.0], np.float32)}
    fl_ctx = task_context()
    Guard("appetite.toml").process(message(own), fl_ctx)
    own["w"] += 7
    Meter("appetite.toml").process(message(own), fl_ctx)
    assert door.left[0][0]["w"].tolist() == [1.0, 2.0]


def test_differences_are_judged_as_the_model_that_they_make(door, fl_ctx):
    result = message({"w": np.array([0.5, 0.5], np.float32)}, DataKind.WEIGHT_DIFF)
    left = Meter("appetite.toml").process(result, fl_ctx)
    assert door.left[0][1]["w"].tolist() == [1.5, 2.5]
    assert from_shareable(left).data_kind == DataKind.WEIGHT_DIFF
    assert arrays(left)["w"].tolist() == [0.5, 0.5]


@pytest.mark.parametrize(("kind", "expected"), [(DataKind.WEIGHTS, [4.0, 4.0]), (DataKind.WEIGHT_DIFF, [3.0, 2.0])])
def test_what_leaves_is_what_the_door_gives(door, fl_ctx, kind, expected):
    door.becomes = {"w": torch.tensor([4.0, 4.0])}
    result = message(TRAINED, kind)
    left = Meter("appetite.toml").process(result, fl_ctx)
    assert arrays(left)["w"].tolist() == expected
    assert arrays(left)["w"].dtype == np.float32
    assert arrays(left)["n"] == (3 if kind == DataKind.WEIGHTS else 0)  # the server's own value: it stays at the site
    assert result["DXO"]["data"]["w"].tolist() == [1.5, 2.5]


def test_a_withheld_update_is_an_exception_and_its_reason_stays_in_the_log(door, fl_ctx, why):
    door.releases = WITHHOLD
    said = why(Meter("appetite.toml"), message(TRAINED), fl_ctx)
    assert "withheld this update: reconstruction: 0.3 is above the limit of 0.02." in said
    assert not door.unread, "the policy's own answer is in the ledger already"


def test_names_of_wrappers_are_brought_together_and_given_back(door):
    fl_ctx = task_context()
    Guard("appetite.toml").process(message({f"module.{name}": value for name, value in GLOBAL.items()}), fl_ctx)
    wrapped = {f"_orig_mod.{name}": value for name, value in TRAINED.items()}
    left = Meter("appetite.toml").process(message(wrapped), fl_ctx)
    assert door.came[0][0].keys() == door.left[0][0].keys() == door.left[0][1].keys() == GLOBAL.keys()
    assert arrays(left).keys() == wrapped.keys()


def evaluation(door) -> FLContext:
    """After a Guard has let in a model that is only to be evaluated."""
    made = task_context()
    made.set_prop(FLContextKey.TASK_NAME, AppConstants.TASK_VALIDATION, private=True, sticky=False)
    Guard("appetite.toml").process(message(GLOBAL), made)
    return made


def test_a_few_metrics_of_an_evaluation_leave(door, fl_ctx, why):
    told = message({"accuracy": 0.9}, DataKind.METRICS)
    assert Meter("appetite.toml").process(told, evaluation(door)) is told
    assert [each[2] for each in door.came] == [2, 2], "the model was inspected, as one to train is"
    assert not door.left
    assert "METRICS" in why(Meter("appetite.toml"), told, fl_ctx), "no answer to a model that came to be trained"


@pytest.mark.parametrize("told", [{"scan": np.zeros(9)}, {"pixels": [0.5] * 300}, {"scan": b"picture"}])
def test_a_picture_among_the_metrics_is_withheld(door, why, told):
    assert "its metrics hold" in why(Meter("appetite.toml"), message(told, DataKind.METRICS), evaluation(door))


def test_a_model_that_only_comes_to_be_evaluated_is_refused_as_any_other(door, why):
    door.admits = WITHHOLD
    made = task_context()
    made.set_prop(FLContextKey.TASK_NAME, AppConstants.TASK_VALIDATION, private=True, sticky=False)
    assert why(Guard("appetite.toml"), message(GLOBAL), made)
    assert why(Meter("appetite.toml"), message({"accuracy": 0.9}, DataKind.METRICS), made)
    assert not door.left


def test_a_warning_passes(door, fl_ctx):
    door.releases = Decision("warn", ("near the limit.",))
    assert arrays(Meter("appetite.toml").process(message(TRAINED), fl_ctx))


class Odd(dict):
    """No message of NVFlare's."""


def beside(**extra) -> Shareable:
    made = message(TRAINED)
    made.update(extra)
    return made


def with_header(value) -> Shareable:
    made = message(TRAINED)
    made.set_header("scan", value)
    return made


NOT_READABLE = {
    "no message": Odd(DXO=1),
    "no payload": Shareable(),
    "no DXO": Shareable({"model": GLOBAL}),
    "a broken DXO": Shareable({"DXO": {"kind": "WEIGHTS", "data": 5}}),
    "metrics": message({"loss": 0.3}, DataKind.METRICS),
    "a collection": message({"a": DXO(DataKind.WEIGHTS, dict(GLOBAL))}, DataKind.COLLECTION),
    "analytics": message({"value": 1.0, "type": AnalyticsDataType.SCALAR}, DataKind.ANALYTIC),
    "statistics": message({"mean": 1.0}, DataKind.STATISTICS),
    "defined by the app": message(GLOBAL, DataKind.APP_DEFINED),
    "a kind of its own": message(GLOBAL, "patient-4711"),
    "no kind": message(GLOBAL, None),
    "no arrays": message({}),
    "quantised": message(GLOBAL, **{MetaKey.PROCESSED_ALGORITHM: "float16"}),
    "bytes": message({"w": b"\x00" * 64}),
    "text": message({"w": "patient-4711"}),
    "objects": message({"w": np.array([{}], dtype=object)}),
    "an inner dictionary": message({"w": {"w": np.zeros(2)}}),
}


@pytest.mark.parametrize("name", NOT_READABLE)
@pytest.mark.parametrize("make", [Guard, Meter, Defend, lambda path: Record("updates", path)])
def test_what_cannot_be_read_is_blocked(door, fl_ctx, why, make, name):
    said = why(make("appetite.toml"), NOT_READABLE[name], fl_ctx)
    assert "4711" not in said
    assert "unexpected" not in said
    assert len(door.came) == 1
    assert not door.left
    expected = {Guard: [("in", "job-7")], Meter: [("out", "job-7")]}.get(make, [])
    assert [each[:2] for each in door.unread] == expected, "what has a ledger writes it down"


HIDDEN = {
    "another key": beside(scan=np.zeros(9)),
    "an array in the metadata": message(TRAINED, scan=np.zeros(9)),
    "a picture as numbers": message(TRAINED, scan=[0.5] * 4096),
    "bytes in a header": with_header(b"\x00" * 64),
    "a name of its own": message({"patient-4711": np.zeros(2)}),
    "another shape": message({"w": np.zeros(64)}),
}


@pytest.mark.parametrize("name", HIDDEN)
@pytest.mark.parametrize("make", [Meter, Defend, lambda path: Record("updates", path)])
def test_what_is_hidden_beside_the_weights_is_withheld(door, fl_ctx, why, make, name):
    said = why(make("appetite.toml"), HIDDEN[name], fl_ctx)
    assert "4711" not in said
    assert "unexpected" not in said
    assert not door.left


def test_a_model_sent_as_differences_is_refused(door, why):
    said = why(Guard("appetite.toml"), message(GLOBAL, DataKind.WEIGHT_DIFF), task_context())
    assert "differences to a model that the site was not shown" in said


def test_an_error_leaves_without_what_lies_beside_it(door, fl_ctx):
    """NVFlare's own DXOFilter hands on a result with an error code as it is."""
    result = message(TRAINED)
    result.set_return_code(ReturnCode.EXECUTION_EXCEPTION)
    left = Meter("appetite.toml").process(result, fl_ctx)
    assert left == make_reply(ReturnCode.EXECUTION_EXCEPTION)
    result.set_return_code("patient-4711")
    assert Meter("appetite.toml").process(result, fl_ctx) == make_reply(ReturnCode.EXECUTION_EXCEPTION)


def test_the_model_of_another_task_is_not_the_one_before(door, fl_ctx, why):
    fl_ctx.set_prop(FLContextKey.TASK_ID, "task-2", private=True, sticky=False)
    assert "was not kept" in why(Meter("appetite.toml"), message(TRAINED), fl_ctx)


def test_whatever_breaks_at_the_door_withholds(door, fl_ctx, why, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("/data/patients/4711.png")

    monkeypatch.setattr(door, "release", broken)
    said = why(Meter("appetite.toml"), message(TRAINED), fl_ctx)
    assert "an unexpected RuntimeError" in said
    assert "4711" not in said


def test_a_policy_that_cannot_be_opened_blocks_and_its_path_stays_here(door, fl_ctx, why, monkeypatch):
    def missing(policy, ledger=None):
        raise BadInput(f"cannot read {policy}.")

    monkeypatch.setattr("fluoroscope.site.opening.open_site", missing)
    for blocked in (Guard("/secret/place/appetite.toml"), Meter("/secret/place/appetite.toml")):
        said = why(blocked, message(GLOBAL), fl_ctx)
        assert "fluoroscope policy check" in said
        assert "secret" not in said


@pytest.mark.parametrize("made", [lambda: Guard(""), lambda: Meter(None), lambda: Record(7), lambda: Guard("a", "")])
def test_arguments_that_are_no_paths_are_named(made):
    with pytest.raises(Misconfigured, match="as text, not"):
        made()


def test_updates_are_written_down_and_leave_as_they_are(door, fl_ctx, tmp_path):
    result = message(TRAINED)
    assert Record(str(tmp_path / "updates")).process(result, fl_ctx) is result
    before, after = RecordedUpdates(tmp_path / "updates").load(2, "north")
    assert before["w"].tolist() == [1.0, 2.0]
    assert after["w"].tolist() == [1.5, 2.5]


def test_what_cannot_be_written_down_does_not_leave(door, fl_ctx, why, tmp_path):
    (tmp_path / "updates").write_text("a file, not a folder")
    said = why(Record(str(tmp_path / "updates")), message(TRAINED), fl_ctx)
    assert "could not be written down" in said
    assert str(tmp_path) not in said


def test_a_jobs_filter_keeps_the_model_by_itself(tmp_path):
    """`recipe.add_client_output_filter(Record("updates"))` is enough: NVFlare tells it of the task."""
    record, fl_ctx = Record(str(tmp_path / "updates")), task_context()
    fl_ctx.set_prop(FLContextKey.TASK_DATA, message(GLOBAL), private=True, sticky=False)
    record.handle_event(EventType.AFTER_TASK_DATA_FILTER, fl_ctx)
    record.process(message(TRAINED), fl_ctx)
    assert RecordedUpdates(tmp_path / "updates").clients(2) == ["north"]


def test_an_event_with_an_unreadable_task_is_no_model(door, why):
    meter, fl_ctx = Meter("appetite.toml"), task_context()
    for task in (None, Shareable(), 7):
        fl_ctx.set_prop(FLContextKey.TASK_DATA, task, private=True, sticky=False)
        meter.handle_event(EventType.AFTER_TASK_DATA_FILTER, fl_ctx)
    assert "was not kept" in why(meter, message(TRAINED), fl_ctx)
