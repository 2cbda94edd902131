"""The supernode's door, with Flower's own loop on one side and a superlink of paper on the other."""

import pytest
import torch
from flwr.app import ArrayRecord, Error, Message, MessageType, MetricRecord, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.supercore.fab import Fab
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.run import Run
from flwr.supernode import start_client_internal as flower
from flwr.supernode.nodestate import NodeStateFactory

from fluoroscope.errors import BadInput, Unsupported
from fluoroscope.federation.guard import REFUSED
from fluoroscope.integrations.flower import supernode
from fluoroscope.integrations.flower.exchange import WITHHELD
from fluoroscope.integrations.flower.supernode import Door, check_flower

from .conftest import WITHHOLD, FakeControl, arrays_of, context, message, module, stock_app


class PaperSuperlink:
    """What a superlink holds, and every byte that reaches it."""

    def __init__(self, sent: Message) -> None:
        self.waiting = [(remove_content_from_message(sent), get_object_tree(sent))]
        self.objects = {name: part.deflate() for name, part in get_all_nested_objects(sent).items()}
        self.replies, self.reached, self.confirmed = [], {}, []

    def connection(self):
        def send(reply, tree, seconds):
            self.replies.append((reply, tree))
            return {part.object_id for part in flower.iterate_object_tree(tree)}, "session"

        return (
            7,
            lambda: self.waiting.pop() if self.waiting else None,
            send,
            lambda run: Run.create_empty(run),
            lambda digest, run: Fab("", b"", {}),
            lambda run, name: self.objects[name],
            lambda run, session, name, content: self.reached.update({name: content}),
            lambda run, name: self.confirmed.append(name),
        )

    @property
    def reply(self) -> Message:
        """As a server's app would read it."""
        ((_, tree),) = self.replies
        return inflate_object_from_contents(tree.object_id, dict(self.reached))


class Site:
    """A supernode's own loop, one turn at a time, with an app in the place of the app's process."""

    def __init__(self, control, superlink, monkeypatch) -> None:
        monkeypatch.setattr(flower, "get_fused_config_from_fab", lambda *_: {})
        factory = ObjectStoreFactory()
        self.state, self.store = NodeStateFactory(objectstore_factory=factory).state(), factory.store()
        self.state.set_node_id(7)
        self.door = Door(control)
        _, self.receive, self.send, *rest = self.door.around(superlink.connection())
        self.get_run, self.get_fab, self.pull, self.push, self.confirm = rest

    def take(self) -> Message | None:
        """What the app gets to see."""
        run = flower._pull_and_store_message(
            self.state,
            self.store,
            {},
            self.receive,
            self.get_run,
            self.get_fab,
            self.pull,
            self.confirm,
            None,
        )
        if run is None:
            return None
        (outer,) = self.state.get_messages_legacy(is_reply=False)
        tree = self.store.get_object_tree(outer.metadata.message_id)
        contents = {part.object_id: self.store.get(part.object_id) for part in flower.iterate_object_tree(tree)}
        got = inflate_object_from_contents(tree.object_id, contents)
        got.metadata.__dict__["_message_id"] = tree.object_id
        return got

    def give(self, reply: Message) -> None:
        """What the app's process does with its reply, and the supernode after it."""
        flower._insert_message(reply, self.state, self.store)
        flower._push_messages(self.state, self.store, self.door.sending(self.store), self.push)


@pytest.fixture
def street(monkeypatch):
    """A round from the superlink through a site and back."""

    def make(control, sent=None):
        superlink = PaperSuperlink(message() if sent is None else sent)
        return superlink, Site(control, superlink, monkeypatch)

    return make


def test_this_flower_is_the_one_that_was_read():
    check_flower()


def test_another_flower_is_refused_with_a_sentence(monkeypatch):
    monkeypatch.setattr(supernode, "version", lambda _: "1.42.0")
    with pytest.raises(Unsupported, match=r"built for Flower 1\.41\.0, and this is 1\.42\.0"):
        check_flower()


@pytest.mark.parametrize("name", supernode.EXPECTED)
def test_a_function_that_has_changed_is_refused(monkeypatch, name):
    monkeypatch.setattr(flower, name, lambda state: None)
    with pytest.raises(Unsupported, match=name):
        check_flower()
    monkeypatch.delattr(flower, name)
    with pytest.raises(Unsupported, match=name):
        check_flower()


def test_the_connection_has_the_eight_parts_that_are_wrapped(monkeypatch):
    """What `http_request_response` promises to yield, by its annotation."""
    import inspect
    import typing

    found = inspect.signature(flower._init_connection).return_annotation
    assert len(typing.get_args(typing.get_args(found)[0])) == 8


def test_a_round_passes_both_ways(street):
    control = FakeControl(defended=10.0)
    superlink, site = street(control)
    site.give(stock_app()(site.take(), context()))
    own = module().state_dict()
    assert torch.equal(arrays_of(superlink.reply)["3.bias"], own["3.bias"] + 11)
    assert superlink.reply.content["metrics"]["train_loss"] == 0.5
    assert [seen[0] for seen in control.seen] == ["in", "out"]
    assert all(torch.equal(control.seen[1][1][k], own[k]) for k in own)
    assert superlink.replies[0][0].metadata.reply_to_message_id == message_id(superlink)


def message_id(superlink) -> str:
    return superlink.confirmed[0]


def test_a_refused_model_is_answered_and_never_seen_by_the_app(street):
    superlink, site = street(FakeControl(incoming=WITHHOLD))
    assert site.take() is None
    assert superlink.reply.error.code == REFUSED
    assert len(superlink.confirmed) == 1
    assert not site.state.get_messages_legacy()
    assert site.take() is None  # and the loop goes on


def test_no_byte_of_a_withheld_update_reaches_the_superlink(street):
    superlink, site = street(FakeControl(outgoing=WITHHOLD))
    reply = stock_app()(site.take(), context())
    site.give(reply)
    assert superlink.reply.error.code == WITHHELD
    assert len(superlink.reached) == 1  # the error itself
    assert not set(superlink.reached) & set(get_all_nested_objects(reply))
    assert not any(b"train_loss" in content for content in superlink.reached.values())


def test_a_door_that_fails_is_shut(street):
    superlink, site = street(FakeControl(fails=True))
    assert site.take() is None
    assert superlink.reply.error.code == REFUSED


def test_evaluation_passes_and_arrays_of_a_query_do_not(street):
    for kind, passes in ((MessageType.EVALUATE, True), (MessageType.QUERY, False)):
        superlink, site = street(FakeControl(), message(kind=kind))
        site.give(stock_app()(site.take(), context()))
        assert superlink.reply.has_content() == passes


def test_an_apps_error_says_nothing_of_the_site(street):
    superlink, site = street(FakeControl())
    site.give(Message(Error(1, "no such file: /data/patient-17.dcm"), reply_to=site.take()))
    assert superlink.reply.error.code == 1
    assert not any(b"patient" in content for content in superlink.reached.values())


def test_an_app_cannot_reply_twice_or_to_something_else(street):
    superlink, site = street(FakeControl())
    got = site.take()
    reply = stock_app()(got, context())
    again = Message(RecordDict({"arrays": ArrayRecord({"image": torch.rand(3)})}), reply_to=got)
    site.give(reply)
    site.give(again)
    assert len(superlink.replies) == 1
    assert not set(superlink.reached) & set(get_all_nested_objects(again))


def test_what_an_app_writes_on_its_envelope_does_not_leave(street):
    superlink, site = street(FakeControl())
    reply = stock_app()(site.take(), context())
    reply.metadata.__dict__["_group_id"] = "patient-17"
    reply.metadata.__dict__["_message_type"] = "query.patient-17"
    site.give(reply)
    ((outer, _),) = superlink.replies
    assert (outer.metadata.group_id, outer.metadata.message_type) == ("3", "train")
    assert not any(b"patient-17" in content for content in superlink.reached.values())


def test_an_envelope_that_lies_is_not_received(street):
    """Told as a query, which is not inspected, with a training message inside."""
    superlink, site = street(FakeControl())
    outer, _ = superlink.waiting[0]
    outer.metadata.__dict__["_message_type"] = "query"
    assert site.take() is None
    assert not superlink.replies


def test_an_object_that_is_not_what_its_name_says_is_not_received(street):
    superlink, site = street(FakeControl())
    name = next(name for name, content in superlink.objects.items() if content.startswith(b"ArrayChunk"))
    superlink.objects[name] += b"x"
    assert site.take() is None


def test_nothing_leaves_past_the_door(street):
    _, site = street(FakeControl())
    got = site.take()
    with pytest.raises(BadInput, match="past the site's door"):
        site.send(got, get_object_tree(got), 0.0)
    with pytest.raises(BadInput, match="past the site's door"):
        site.push(1, "session", "name", b"content")


def test_a_reply_that_cannot_be_read_is_withheld(street, monkeypatch):
    superlink, site = street(FakeControl())
    got = site.take()
    reply = Message(RecordDict({"metrics": MetricRecord({"loss": 1.0})}), reply_to=got)
    monkeypatch.setattr(supernode, "_inflated", lambda *_: 1 / 0)
    site.give(reply)
    assert superlink.reply.error.code == WITHHELD
