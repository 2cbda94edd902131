"""Apps as somebody else writes them, and a door that decides as a test tells it."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MessageType, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.supercore.task_identity import TaskIdentity
from torch import nn

import fluoroscope as fl
from fluoroscope.site.decision import Decision
from fluoroscope.site.reading import Metered, Reading
from fluoroscope.site.subject import Subject

METERED = Metered(
    (Reading("reconstruction", None, "No attack works."),),
    ("ridge: no time", "r-gap: one image only", "decoder: no time"),
    4.25,
)
SEND, WITHHOLD = Decision("send"), Decision("withhold", ("above the limit",))


def module() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(72, 3))


NETWORK = fl.Network.of(module(), (1, 8, 8))
TRAINING = fl.LocalTraining(fl.Sgd(0.1), images=4, batch_size=4)


@dataclass
class FakeControl:
    """The site's door with its decisions written down beforehand."""

    incoming: Decision = SEND
    outgoing: Decision = SEND
    defended: float = 0.0
    """Added to whatever leaves."""
    network: fl.Network | None = NETWORK
    fails: bool = False
    seen: list[tuple] = field(default_factory=list)

    @property
    def subject(self):
        return Subject(self.network, TRAINING)

    def receive(self, state, *, run, round):
        self.seen.append(("in", dict(state), run, round))
        if self.fails:
            raise OSError(28, "No space left on device")
        return self.incoming

    def unreadable(self, direction, problem, *, run, round):
        self.seen.append(("unreadable", direction, run, round))
        return WITHHOLD

    def release(self, before, after, *, run, round):
        self.seen.append(("out", dict(before), dict(after), run, round))
        if self.fails:
            raise OSError(28, "No space left on device")
        state = {k: v + self.defended if v.is_floating_point() else v for k, v in after.items()}
        return SimpleNamespace(decision=self.outgoing, state=state if self.outgoing.passes else {}, metered=METERED)


@pytest.fixture(autouse=True)
def _a_run(monkeypatch):
    """Flower makes messages within a run only."""
    for what in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, what, 1)


def message(state=None, kind=MessageType.TRAIN, records=None, group="3") -> Message:
    """As a server sends it."""
    state = module().state_dict() if state is None else state
    content = {"arrays": ArrayRecord(state)} if state else {}
    content |= {"config": ConfigRecord({"server-round": 3, "lr": 0.1}), **(records or {})}
    made = Message(RecordDict(content), dst_node_id=7, message_type=kind, group_id=group)
    made.metadata.__dict__["_message_id"] = made.object_id
    return made


def context(**node_config) -> Context:
    return Context(1, 7, node_config, RecordDict(), {})


def stock_app(mods=(), prefix: str = "", only: str = "") -> ClientApp:
    """A quickstart's app: it knows nothing of us. It adds one to every parameter, and changes what it was given."""
    app = ClientApp(mods=list(mods))

    @app.train()
    def train(asked: Message, _: Context) -> Message:
        state = asked.content["arrays"].to_torch_state_dict()
        trained = {f"{prefix}{k}": v + 1 for k, v in state.items() if only in k}
        asked.content["arrays"] = ArrayRecord({k: torch.zeros(1) for k in state})
        metrics = MetricRecord({"train_loss": 0.5, "num-examples": 4})
        return Message(RecordDict({"arrays": ArrayRecord(trained), "metrics": metrics}), reply_to=asked)

    @app.evaluate()
    def evaluate(asked: Message, _: Context) -> Message:
        metrics = MetricRecord({"eval_loss": 0.25, "num-examples": 4})
        return Message(RecordDict({"metrics": metrics}), reply_to=asked)

    @app.query()
    def query(asked: Message, _: Context) -> Message:
        return Message(RecordDict({"stolen": ArrayRecord({"image": torch.rand(64)})}), reply_to=asked)

    return app


def arrays_of(reply: Message) -> dict[str, torch.Tensor]:
    return dict(reply.content["arrays"].to_torch_state_dict())
