"""SecAgg+ whose sum is noise unless all clients were sent the same: consistency without a side channel.

    app = ClientApp(client_fn, mods=[guard_mod(agreed, own), consistency_mod(), secaggplus_mod])

A malicious server sends a live model to its victim and a dead one to all others, and the secure sum is the victim's
update. This mod mixes the digest of what the server sent into the seed of the client's own mask, and into the shares of
it that others hold (`mixed_shares`): only clients who were sent the same can take it off. The server's side stays
Flower's own, no message has a digest in it, drop-outs are borne as before, and a sum over equal models is the same.
"""

import hashlib
import os
from collections.abc import Collection, Mapping
from logging import ERROR
from typing import Any

from flwr.app import ConfigRecord, Context, Error, Message, MessageType, RecordDict
from flwr.client.mod.secure_aggregation.secaggplus_mod import SecAggPlusState
from flwr.common import bytes_to_ndarray, ndarray_to_bytes
from flwr.common.logger import log
from flwr.common.secure_aggregation.crypto.symmetric_encryption import decrypt, encrypt
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, RECORD_KEY_STATE, Key, Stage
from flwr.common.secure_aggregation.secaggplus_utils import share_keys_plaintext_concat, share_keys_plaintext_separate

from fluoroscope.errors import Refused
from fluoroscope.federation.guard import REFUSED, Mod, Next
from fluoroscope.federation.mixed_shares import SECRET, dealt, is_mixed, mixed_seed, opened
from fluoroscope.federation.pair_masks import with_pair_masks

_OWN = "fluoroscope.consistency"
"""Where a client keeps its line and its digest between the protocol's stages; no message takes it along."""
_FIRST, _SECOND, _DIGEST = "first", "second", "digest"


def consistency_mod(*, may_differ: Collection[str] = (), drop_outs: bool = True) -> Mod:
    """A mod in front of Flower's `secaggplus_mod`; every client of a round needs it.

    Args:
        may_differ: keys of the configuration that a server honestly sets apart for each client. All others count as
            much as the model: a learning rate of 0 for everybody else singles a client out, too.
        drop_outs: a client that is lost after the keys were shared does not cost the round. What is left of unequal
            models is then as strong as Flower's own masks, whose seeds have 32 bits. False adds masks of 256 bits
            between the clients; a client that is lost after the keys were shared then turns the sum into noise.

    Example:
        >>> from flwr.client.mod import secaggplus_mod
        >>> from flwr.clientapp import ClientApp
        >>> app = ClientApp(mods=[consistency_mod(), secaggplus_mod])
    """

    def mod(message: Message, context: Context, call_next: Next) -> Message:
        asked = message.content.config_records.get(RECORD_KEY_CONFIGS)
        if message.metadata.message_type != MessageType.TRAIN or asked is None:
            return call_next(message, context)
        stage, asked = asked.get(Key.STAGE), ConfigRecord(dict(asked))  # the next mod takes the stage out
        try:
            if stage == Stage.SHARE_KEYS:
                _check_threshold(context, len(asked) - 1)
                return _deal(call_next(message, context), context)
            if stage == Stage.COLLECT_MASKED_VECTORS:
                digest = digest_of(message.content, may_differ)
                _mix(context, digest)
                reply = call_next(message, context)
                _check_shares(context)
                return reply if drop_outs or reply.has_error() else _masked(reply, context, asked, digest)
            if stage == Stage.UNMASK:
                _check_lists(asked)
                return _open(call_next(message, context), context, asked)
        except Refused as reason:
            log(ERROR, "consistency: %s", reason)
            context.state.config_records.pop(_OWN, None)  # no share of this round is opened any more
            return Message(Error(REFUSED, str(reason)), reply_to=message)
        return call_next(message, context)

    return mod


def digest_of(content: RecordDict, may_differ: Collection[str] = ()) -> bytes:
    """SHA-256 over all that a server sent with a model, to the byte, without the protocol's own part."""
    whole = hashlib.sha256()
    for name, arrays in content.array_records.items():
        for key, array in arrays.items():
            _enter(whole, repr((name, key, array.dtype, tuple(array.shape), array.stype)).encode(), array.data)
    settings: Mapping[str, Mapping[str, Any]] = {**content.config_records, **content.metric_records}
    for name in sorted(settings):
        if name != RECORD_KEY_CONFIGS:
            kept = sorted(item for item in settings[name].items() if item[0] not in may_differ)
            _enter(whole, repr((name, kept)).encode())
    return whole.digest()


def _enter(whole: "hashlib._Hash", *parts: bytes) -> None:
    for part in parts:
        whole.update(len(part).to_bytes(8, "big"))
        whole.update(part)


def _check_threshold(context: Context, holders: int) -> None:
    """With half of the shares or fewer, two groups could each be opened at a digest of its own."""
    threshold = _state(context).threshold
    if 2 * threshold <= holders:
        raise Refused(
            f"{threshold} of {holders} clients are enough to take a mask off, so that two halves may be sent different "
            f"models: set reconstruction_threshold above one half ({holders // 2 + 1} or more)."
        )


def _check_shares(context: Context) -> None:
    if not all(map(is_mixed, _state(context).rd_seed_share_dict.values())):
        raise Refused("another client of this round shares its keys without a digest: give every client this mod.")


def _check_lists(asked: Mapping[str, Any]) -> None:
    if both := set(asked[Key.ACTIVE_NODE_ID_LIST]) & set(asked[Key.DEAD_NODE_ID_LIST]):
        raise Refused(f"the server calls {len(both)} clients active and lost at once, which would unmask each of them.")


def _deal(reply: Message, context: Context) -> Message:
    """What the client has shared, a straight line in the place of a seed."""
    if reply.has_error():
        return reply
    state, sent = _state(context), reply.content.config_records[RECORD_KEY_CONFIGS]
    second = os.urandom(SECRET)
    context.state.config_records[_OWN] = ConfigRecord({_FIRST: state.rd_seed, _SECOND: second})
    holders: Any = sent[Key.DESTINATION_LIST]
    texts: Any = sent[Key.CIPHERTEXT_LIST]
    plain = {
        to: share_keys_plaintext_separate(decrypt(state.ss2_dict[to], text))
        for to, text in zip(holders, texts, strict=True)
    }
    firsts = {to: seed_share for to, (_, _, seed_share, _) in plain.items()} | state.rd_seed_share_dict
    shares = dealt(firsts, second, state.threshold, state.share_num)
    sent[Key.CIPHERTEXT_LIST] = [
        encrypt(state.ss2_dict[to], share_keys_plaintext_concat(state.nid, to, shares[to], key_share))
        for to, (_, _, _, key_share) in plain.items()
    ]
    state.rd_seed_share_dict = {state.nid: shares[state.nid]}
    _keep(context, state)
    return reply


def _mix(context: Context, digest: bytes) -> None:
    """From here on the client's own mask is the one at its digest."""
    own = context.state.config_records.get(_OWN)
    if own is None:
        raise Refused("a model came before the keys were shared: start the round again.")
    own[_DIGEST] = digest
    state = _state(context)
    state.rd_seed = mixed_seed(_bytes(own, _FIRST), _bytes(own, _SECOND), digest)
    _keep(context, state)


def _masked(reply: Message, context: Context, asked: Mapping[str, Any], digest: bytes) -> Message:
    state, record = _state(context), reply.content.config_records[RECORD_KEY_CONFIGS]
    sent: Any = record[Key.MASKED_PARAMETERS]
    secrets = {neighbour: state.ss2_dict[neighbour] for neighbour in asked[Key.SOURCE_LIST]}
    arrays = with_pair_masks([bytes_to_ndarray(each) for each in sent], state.nid, secrets, digest, state.mod_range)
    record[Key.MASKED_PARAMETERS] = [ndarray_to_bytes(array) for array in arrays]
    return reply


def _open(reply: Message, context: Context, asked: Mapping[str, Any]) -> Message:
    """Shares of active clients' seeds, at this client's digest; the others are keys of lost clients."""
    if reply.has_error():
        return reply
    own = context.state.config_records.pop(_OWN, None)
    if own is None or _DIGEST not in own:
        raise Refused("there are no shares to open: this client has no part in the sum.")
    digest = _bytes(own, _DIGEST)
    record = reply.content.config_records[RECORD_KEY_CONFIGS]
    shares: Any = record[Key.SHARE_LIST]
    active = len(asked[Key.ACTIVE_NODE_ID_LIST])
    record[Key.SHARE_LIST] = [opened(share, digest) for share in shares[:active]] + shares[active:]
    return reply


def _state(context: Context) -> SecAggPlusState:
    return SecAggPlusState(**context.state.config_records.get(RECORD_KEY_STATE, ConfigRecord()))


def _keep(context: Context, state: SecAggPlusState) -> None:
    context.state.config_records[RECORD_KEY_STATE] = ConfigRecord(state.to_dict())


def _bytes(record: ConfigRecord, key: str) -> bytes:
    value = record[key]
    assert isinstance(value, bytes)
    return value
