"""What a client does not send: it keeps that for the next round, and the server's copy stays as it was."""

from collections.abc import Iterable

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord
from flwr.serverapp import Grid
from torch import Tensor

from fluoroscope.federation.messages import to_arrays, to_state
from fluoroscope.federation.wrapper import Wrapper
from fluoroscope.types import State

HOME = "home"


def save_local_state(context: Context, kept: State) -> None:
    """Remember what was not sent."""
    context.state[HOME] = to_arrays(kept)


def local_state(context: Context) -> dict[str, Tensor]:
    """What the client kept in its last round."""
    kept = context.state.array_records.get(HOME)
    return {} if kept is None else to_state(kept)


class FillWithheld(Wrapper):
    """Reads what a client did not send as no change, so that every strategy meets whole models."""

    _sent_out: ArrayRecord

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        self._sent_out = arrays
        return self.inner.configure_train(server_round, arrays, config, grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        replies = list(replies)
        for reply in replies:
            for key, record in list(reply.content.array_records.items()):
                if len(record) < len(self._sent_out):
                    whole = {name: record.get(name, value) for name, value in self._sent_out.items()}
                    reply.content[key] = ArrayRecord(whole)
        return self.inner.aggregate_train(server_round, replies)
