"""One exchange through the site's door: a message of the server comes in, the app's reply goes out.

Mods and the supernode share this; what they do with an answer is theirs.
"""

from dataclasses import dataclass
from logging import ERROR, INFO, WARNING
from typing import TYPE_CHECKING, Literal

from flwr.app import Error, Message, RecordDict
from flwr.common.logger import log
from torch import Tensor

from fluoroscope.errors import BadInput, FluoroscopeError
from fluoroscope.federation.guard import refusal
from fluoroscope.federation.messages import is_train, to_arrays
from fluoroscope.integrations.flower.reading import check_beside, model_key, model_of, round_of, state_of
from fluoroscope.models.names import prefix_of
from fluoroscope.site.decision import Decision

if TYPE_CHECKING:
    from fluoroscope.site.control import SiteControl

WITHHELD = 4
"""The error's code in a reply, as the exit code of the commands."""


@dataclass(frozen=True, eq=False)
class Exchange:
    """A message that came in, as it was when it came: an app may change what it is given."""

    control: "SiteControl"
    message: Message
    """Only its metadata is used from here on."""
    train: bool
    round: int
    before: dict[str, Tensor] | None
    """The model; None where there was none, or none that could be read."""
    unreadable: str = ""
    """Why it could not."""
    arrays: bool = False
    """Whether the message carries any, readable or not."""

    @classmethod
    def of(cls, control: "SiteControl", message: Message) -> "Exchange":
        """Read what came."""
        content = message.content if message.has_content() else RecordDict()
        arrays = any(content.array_records.values())
        before, why = None, ""
        try:
            check_beside(content)
            before = model_of(content) if arrays else None
        except FluoroscopeError as problem:
            why = str(problem)
        return cls(control, message, is_train(message), round_of(message), before, why, arrays)

    @property
    def run(self) -> str:
        """The federation's number."""
        return str(self.message.metadata.run_id)

    def admitted(self) -> Decision:
        """Whether the app may see the message: the guard looks at every model, whatever it is sent for.

        A crafted model that is only evaluated tells of the images as well, through the metrics.
        """
        if self.unreadable and (self.train or self.arrays):
            return self._unread("in", "refused a model", BadInput(self.unreadable))
        if self.before is None:  # without a model, no update of it can leave
            return Decision("send")
        try:
            decision = self.control.receive(self.control.subject.whole(self.before), run=self.run, round=self.round)
        except Exception as problem:  # whatever stops the guard or the ledger: nothing is trained unseen
            return self._unread("in", "refused a model", problem)
        return _told("a model came in" if decision.passes else "refused a model", decision)

    def refusal(self) -> Message:
        """What the server is told in the place of an update of a model that was refused; not why."""
        return refusal(self.message)

    def released(self, reply: Message) -> Message:
        """What may leave in the place of the app's reply."""
        if reply.has_error():
            return reply
        try:
            check_beside(reply.content)
            if self.train:
                return self._measured(reply)
            if any(reply.content.array_records.values()):
                raise BadInput(f"a reply to a message of type {self.message.metadata.message_type!r} carries arrays.")
            return reply
        except Exception as problem:  # whatever cannot be read or judged stays here
            return self.withheld(problem)

    def withheld(self, problem: Exception) -> Message:
        """The answer in the place of a reply that nobody could read."""
        self._unread("out", "withheld a reply", problem)
        return self._withholding()

    def _measured(self, reply: Message) -> Message:
        key = model_key(reply.content)
        sent = state_of(reply.content.array_records[key])
        if self.before is None:
            raise BadInput(
                self.unreadable or "the server sent no model, so there is nothing to compare the reply with."
            )
        before = self.control.subject.whole(self.before)
        prefix = prefix_of(sent, before)
        after = {name.removeprefix(prefix): value for name, value in sent.items()}
        out = self.control.release(before, after, run=self.run, round=self.round)
        log(INFO, "fluoroscope: %s", out.metered.in_words)
        if not out.decision.passes:
            _told("withheld a reply", out.decision)
            return self._withholding()
        _told("an update leaves", out.decision)
        leaving = {f"{prefix}{name}": value.to(after[name].dtype) for name, value in out.state.items() if name in after}
        content = RecordDict({**reply.content, key: to_arrays(leaving)})
        return Message(content, reply_to=self.message)

    def _unread(self, direction: Literal["in", "out"], what: str, problem: Exception) -> Decision:
        """What nobody could judge stands in the ledger too; why, in the site's own log."""
        known = isinstance(problem, FluoroscopeError)
        why = f"{str(problem).rstrip('.')}." if known else f"unexpected {type(problem).__name__}."
        try:
            kept = self.control.unreadable(direction, problem, run=self.run, round=self.round)
        except Exception as failed:  # as above: the door stays shut
            kept = Decision("withhold", (f"unexpected {type(failed).__name__}.",))
        return _told(what, Decision("withhold", (why, *kept.reasons)))

    def _withholding(self) -> Message:
        """Nothing of the reply leaves, its metrics neither."""
        return Message(Error(WITHHELD, "withheld by the site's policy"), reply_to=self.message)


def _told(what: str, decision: Decision) -> Decision:
    """In the site's own log."""
    level = {"send": INFO, "warn": WARNING, "withhold": ERROR}[decision.answer]
    log(level, "fluoroscope: %s", ": ".join([what, *([" ".join(decision.reasons)] if decision.reasons else [])]))
    return decision
