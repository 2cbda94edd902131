"""SecAgg+ through Flower's own protocol: the same sum for equal models, noise for unequal ones, no digest in sight."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict
from flwr.client import NumPyClient
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import FitIns, bytes_to_ndarray, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.common.secure_aggregation.crypto.shamir import combine_shares, create_shares
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, RECORD_KEY_STATE, Key, Stage
from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen
from flwr.server import LegacyContext
from flwr.server.compat.grid_client_proxy import GridClientProxy
from flwr.server.strategy import FedAvg
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD
from flwr.server.workflow.constant import Key as WorkflowKey
from scipy.stats import chisquare

from fluoroscope.attacks.imprint import MediLeak, Peeling
from fluoroscope.data import Request, load
from fluoroscope.federation.consistency import consistency_mod, digest_of
from fluoroscope.federation.grid import RUN_ID, SERVER_NODE, InProcessGrid
from fluoroscope.federation.guard import REFUSED
from fluoroscope.federation.mixed_shares import dealt, is_mixed, mixed_seed, opened
from fluoroscope.federation.pair_masks import with_pair_masks
from fluoroscope.federation.secure_aggregation import Participant
from fluoroscope.models import Architecture
from fluoroscope.rng import seeded_globals
from fluoroscope.scenarios.malicious_round import malicious_round
from fluoroscope.types import LocalTraining, Sgd

CLIENTS, SIZE = 5, 4000
MODEL = np.random.default_rng(0).normal(size=SIZE).astype(np.float32)
MODS = {"32 bits": {}, "256 bits": {"drop_outs": False}}


@dataclass
class Round:
    """What happened: Flower's SecAgg+ workflow, unchanged, against client apps with our mod."""

    mean: np.ndarray | None = None
    replies: list[Message] = field(default_factory=list)
    contexts: list[Context] = field(default_factory=list)


class Adds(NumPyClient):
    """Trains by adding its number."""

    def __init__(self, number):
        self.number = number

    def fit(self, parameters, config):
        return [each + np.float32(0.01 * self.number) for each in parameters], 10 + self.number, {}


class Sends(FedAvg):
    def __init__(self, grid, models, configs):
        super().__init__()
        self.grid, self.models, self.configs, self.result = grid, models, configs, None

    def configure_fit(self, server_round, parameters, client_manager):
        pairs = zip(self.grid.get_node_ids(), self.models, self.configs, strict=True)
        return [
            (GridClientProxy(node, self.grid, RUN_ID), FitIns(ndarrays_to_parameters([model]), config))
            for node, model, config in pairs
        ]

    def aggregate_fit(self, server_round, results, failures):
        self.result = parameters_to_ndarrays(results[0][1].parameters)[0]
        return None, {}


def play(models=None, mod=None, lost=(), lost_at=Stage.COLLECT_MASKED_VECTORS, configs=None, threshold=0.6, without=()):
    """One round; `lost` clients fail at a stage, those `without` have Flower's mod alone."""
    models = models or [MODEL] * CLIENTS

    def first(message, context, call_next):
        number = context.node_config["partition-id"]
        stage = message.content.config_records[RECORD_KEY_CONFIGS][Key.STAGE]
        if number in lost and stage == lost_at:
            return Message(Error(1, "lost"), reply_to=message)
        if mod is None or number in without:
            return call_next(message, context)
        return mod(message, context, call_next)

    played = Round()

    def client_fn(context):
        return Adds(context.node_config["partition-id"]).to_client()

    grid = InProcessGrid(
        ClientApp(client_fn=client_fn, mods=[first, secaggplus_mod]), len(models), played.replies.append
    )
    strategy = Sends(grid, models, configs or [{"lr": 0.1}] * len(models))
    context = LegacyContext(context=Context(RUN_ID, SERVER_NODE, {}, RecordDict(), {}), strategy=strategy)
    context.state.config_records[MAIN_CONFIGS_RECORD] = ConfigRecord({WorkflowKey.CURRENT_ROUND: 1})
    context.state.array_records[MAIN_PARAMS_RECORD] = ArrayRecord([])
    with seeded_globals(3):  # Flower's rounding is stochastic
        SecAggPlusWorkflow(1.0, threshold, max_weight=100)(grid, context)
    played.mean = strategy.result
    played.contexts = list(grid._contexts.values())
    return played


def one_other(change=1e-6):
    other = MODEL.copy()
    other[7] += np.float32(change)
    return [other, *[MODEL] * (CLIENTS - 1)]


def is_noise(mean, truth):
    """Flat over its whole range, unrelated to the truth, and far wider."""
    span = (mean - mean.min()) / (np.ptp(mean) * (1 + 1e-9))
    flat = chisquare(np.bincount((span * 16).astype(int), minlength=16)).pvalue > 1e-6
    unrelated = abs(np.corrcoef(mean, truth)[0, 1]) < 6 / SIZE**0.5
    return flat and unrelated and mean.std() > 3 * truth.std()


@pytest.mark.parametrize("settings", MODS.values(), ids=MODS)
def test_equal_models_give_the_same_sum_to_the_bit(settings):
    assert np.array_equal(play(mod=consistency_mod(**settings)).mean, play().mean)
    assert not is_noise(play().mean, MODEL)


@pytest.mark.parametrize("settings", MODS.values(), ids=MODS)
def test_one_other_model_gives_noise(settings):
    """One number of 4000 differs, by a millionth."""
    without = play(one_other()).mean
    assert np.abs(without - MODEL).max() < 0.05, "Flower alone sums them"
    assert is_noise(play(one_other(), consistency_mod(**settings)).mean, MODEL)


def test_another_configuration_gives_noise_unless_it_may_differ():
    """A learning rate of 0 for all others would single a client out as well as a dead model."""
    configs = [{"lr": 0.1, "site": 0}, *[{"lr": 0.0, "site": 0}] * (CLIENTS - 1)]
    assert is_noise(play(mod=consistency_mod(), configs=configs).mean, MODEL)
    honest = [{"lr": 0.1, "site": i} for i in range(CLIENTS)]
    assert is_noise(play(mod=consistency_mod(), configs=honest).mean, MODEL)
    assert np.array_equal(play(mod=consistency_mod(may_differ=["site"]), configs=honest).mean, play().mean)


@pytest.mark.parametrize("stage", [Stage.COLLECT_MASKED_VECTORS, Stage.UNMASK])
@pytest.mark.parametrize("lost", [(0,), (4,), (1, 3)])
def test_drop_outs_are_borne_as_without_it(lost, stage):
    without, with_it = play(lost=lost, lost_at=stage), play(mod=consistency_mod(), lost=lost, lost_at=stage)
    assert not is_noise(without.mean, MODEL)
    assert np.array_equal(with_it.mean, without.mean)


def test_drop_outs_do_not_hide_another_model():
    assert is_noise(play(one_other(), consistency_mod(), lost=(2,)).mean, MODEL)


def test_the_strong_masks_cost_a_round_in_which_a_client_is_lost():
    strong = consistency_mod(drop_outs=False)
    assert is_noise(play(mod=strong, lost=(2,)).mean, MODEL)
    same = play(mod=strong, lost=(2,), lost_at=Stage.UNMASK).mean
    assert np.array_equal(same, play(lost=(2,), lost_at=Stage.UNMASK).mean)


def test_a_malicious_server_cannot_open_the_odd_client_with_any_of_the_shares():
    """Beyond Flower's own server: it leaves out whichever shares it likes, and knows both digests."""
    played = play(one_other(), consistency_mod())
    victim = SERVER_NODE + 1
    shares = {}
    for reply in played.replies:
        record = reply.content.config_records.get(RECORD_KEY_CONFIGS, {})
        if Key.SHARE_LIST in record:
            for owner, share in zip(record[Key.NODE_ID_LIST], record[Key.SHARE_LIST], strict=True):
                shares.setdefault(owner, {})[reply.metadata.src_node_id] = share
    seeds = {c.node_id: c.state.config_records[RECORD_KEY_STATE]["rd_seed"] for c in played.contexts}
    others = [holder for holder in shares[victim] if holder != victim]
    # Without the victim's share the honest majority opens its own members, and never the victim.
    for owner in shares:
        found = combine_shares([shares[owner][holder] for holder in others])
        assert (found == seeds[owner]) == (owner != victim)
    assert combine_shares(list(shares[victim].values())) != seeds[victim]


def test_no_message_has_the_digest_in_it():
    sent, seen = [], []

    def look(message, context, call_next):
        if message.content.array_records:
            sent.append(digest_of(message.content))
        return consistency_mod()(message, context, call_next)

    replies = play(mod=look).replies
    assert len(set(sent)) == 1
    for reply in replies:
        for record in reply.content.config_records.values():
            for value in record.values():
                seen += [v if isinstance(v, bytes) else str(v).encode() for v in np.atleast_1d(np.array(value, object))]
    whole = b"".join(seen)
    assert len(whole) > 8 * SIZE * CLIENTS
    assert sent[0] not in whole
    assert sent[0][:16] not in whole
    assert sent[0].hex().encode() not in whole
    # The kinds of messages are Flower's own: same keys, and shares of the same length.
    plain = play().replies
    assert sorted(map(keys_of, replies)) == sorted(map(keys_of, plain))


def keys_of(reply):
    record = reply.content.config_records.get(RECORD_KEY_CONFIGS, {})
    shares = [len(share) for share in record.get(Key.SHARE_LIST, [])]
    return str((sorted(record), shares))


def test_half_of_the_clients_must_not_be_enough():
    """A threshold of 2 of 5 lets a server open two groups with a model each."""
    played = play(mod=consistency_mod(), threshold=0.4)
    errors = [reply.error for reply in played.replies if reply.has_error()]
    assert len(errors) == CLIENTS
    assert all(error.code == REFUSED for error in errors)
    assert "2 of 5" in errors[0].reason
    assert "reconstruction_threshold" in errors[0].reason
    assert played.mean is None


def test_two_groups_cannot_both_be_opened():
    other = one_other()[0]
    for victims in (1, 2, 3, 4):
        models = [other] * victims + [MODEL] * (CLIENTS - victims)
        assert is_noise(play(models, consistency_mod()).mean, MODEL)


def test_a_client_without_the_mod_is_named():
    played = play(mod=consistency_mod(), without=(1,))
    assert any("give every client this mod" in reply.error.reason for reply in played.replies if reply.has_error())
    assert played.mean is None or is_noise(played.mean, MODEL)


def test_a_server_that_calls_a_client_active_and_lost_is_refused():
    def both(message, context, call_next):
        record = message.content.config_records[RECORD_KEY_CONFIGS]
        if record[Key.STAGE] == Stage.UNMASK:
            record[Key.DEAD_NODE_ID_LIST] = [record[Key.ACTIVE_NODE_ID_LIST][0]]
        return consistency_mod()(message, context, call_next)

    played = play(mod=both)
    assert played.mean is None
    assert sum("active and lost" in reply.error.reason for reply in played.replies if reply.has_error()) == CLIENTS


def test_masked_vectors_stay_flat():
    for settings in MODS.values():
        for reply in play(mod=consistency_mod(**settings)).replies:
            record = reply.content.config_records.get(RECORD_KEY_CONFIGS, {})
            for carried in record.get(Key.MASKED_PARAMETERS, [])[1:]:
                values = bytes_to_ndarray(carried)
                assert values.min() >= 0
                assert values.max() < 2**32
                assert chisquare(np.bincount(values >> 28, minlength=16)).pvalue > 1e-7


def test_other_messages_pass_untouched():
    InProcessGrid(ClientApp(), 1, lambda reply: None)  # Flower makes messages within a run only
    message = Message(RecordDict({"config": ConfigRecord({"a": 1})}), 2, "evaluate")
    assert consistency_mod()(message, None, lambda given, context: given) is message


def test_a_seed_opens_at_the_digest_that_it_was_mixed_with():
    """Against Flower's own `combine_shares`; any three of five holders."""
    rng = np.random.default_rng(1)
    first, second, digest, other = (rng.bytes(32) for _ in range(4))
    shares = dealt(dict(enumerate(create_shares(first, 3, 5))), second, 3, 5)
    assert all(map(is_mixed, shares.values()))
    seed = mixed_seed(first, second, digest)
    assert len(seed) == 32
    for holders in ((0, 1, 2), (4, 2, 1), (0, 1, 2, 3, 4)):
        assert combine_shares([opened(shares[i], digest) for i in holders]) == seed
    assert combine_shares([opened(shares[i], other) for i in range(5)]) == mixed_seed(first, second, other) != seed
    odd = [opened(shares[i], digest if i else other) for i in range(5)]
    assert combine_shares(odd) not in (seed, mixed_seed(first, second, other), first)


def test_pair_masks_cancel_for_equal_digests_alone():
    arrays, secret = [np.arange(6).reshape(2, 3), np.array(5)], b"s" * 32
    for modulus in (2**32, 10**6):
        a = with_pair_masks(arrays, 9, {4: secret}, b"d" * 32, modulus)
        b = with_pair_masks(arrays, 4, {9: secret}, b"d" * 32, modulus)
        c = with_pair_masks(arrays, 4, {9: secret}, b"e" * 32, modulus)
        for one, two, three, plain in zip(a, b, c, arrays, strict=True):
            assert np.array_equal((one + two) % modulus, 2 * plain)
            assert not np.array_equal((one + three) % modulus, 2 * plain)
            assert one.min() >= 0
            assert one.max() < modulus


def test_all_seeds_of_flower_s_masks_can_be_tried():
    """Why `drop_outs=False` exists: a seed of 32 bytes is folded to 32 bits."""
    one = bytes(range(28)) + bytes(4)
    fold = np.bitwise_xor.reduce(np.frombuffer(one, dtype="<u4"))
    short = int(fold).to_bytes(4, "little")
    assert np.array_equal(pseudo_rand_gen(one, 2**32, [(50,)])[0], pseudo_rand_gen(short, 2**32, [(50,)])[0])


@pytest.mark.parametrize("settings", MODS.values(), ids=MODS)
def test_medileak_gets_nothing(settings):
    """P2's attack, which reads every image of the victim from Flower's own sum."""
    batches = [load("phantom/chest", Request(size=28, images=12, seed=i)).batch for i in range(4)]
    training = LocalTraining(Sgd(0.01), 12, 12)
    participants = [Participant(f"client-{i}", batch, training) for i, batch in enumerate(batches[:3])]
    auxiliary = load("phantom/chest", Request(size=28, images=200, seed=99)).batch
    arguments = (Architecture("lenet5", 1, 2, 28), None, participants, 0, auxiliary, MediLeak(32), Peeling(), "secagg+")
    assert malicious_round(*arguments, seed=1).score.recovered.sum() >= 9
    assert malicious_round(*arguments, seed=1, mods=[consistency_mod(**settings)]).score.recovered.sum() == 0
