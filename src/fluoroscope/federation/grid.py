"""Flower's grid inside one process: the same apps, without Ray's start-up and without a copy of the data.

The public `Grid` is an abstract class, so this is an ordinary part of a Flower program. It touches one
private name of flwr (a message's id), which the pinned version and a test cover.
"""

import copy
from collections.abc import Callable, Iterable
from uuid import uuid4

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

RUN_ID = 1
SERVER_NODE = 1


class InProcessGrid(Grid):
    """Calls the client app once for every message, in the order of the clients."""

    def __init__(self, app: ClientApp, clients: int, on_reply: Callable[[Message], None]) -> None:
        self.app = app
        self.on_reply = on_reply
        self._contexts = {
            SERVER_NODE + 1 + i: Context(
                run_id=RUN_ID,
                node_id=SERVER_NODE + 1 + i,
                node_config={"partition-id": i, "num-partitions": clients},
                state=RecordDict(),
                run_config={},
            )
            for i in range(clients)
        }
        self._replies: dict[str, Message] = {}
        self._run = Run.create_empty(RUN_ID)
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = RUN_ID, SERVER_NODE, 1

    @property
    def partitions(self) -> dict[int, int]:
        """The client that each node is."""
        return {node: int(context.node_config["partition-id"]) for node, context in self._contexts.items()}

    def set_run(self, run: Run) -> None:
        self._run = run

    @property
    def run(self) -> Run:
        return self._run

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        return list(self._contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        sent = sorted(messages, key=lambda message: message.metadata.dst_node_id)
        for message in sent:
            message.metadata.__dict__["_message_id"] = str(uuid4())
            # Strategies put one record into every message; a client must not see what another one wrote into it.
            message.content = copy.deepcopy(message.content)
            reply = self.app(message, self._contexts[message.metadata.dst_node_id])
            reply.metadata.__dict__["_message_id"] = str(uuid4())
            self._replies[message.metadata.message_id] = reply
            self.on_reply(reply)
        return [message.metadata.message_id for message in sent]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return [self._replies.pop(message_id) for message_id in message_ids if message_id in self._replies]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        return self.pull_messages(self.push_messages(messages))


def partitions_of(grid: Grid) -> dict[int, int] | None:
    """The client that each node is, where the grid set the nodes up itself; None where only they know."""
    return grid.partitions if isinstance(grid, InProcessGrid) else None
