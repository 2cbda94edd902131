"""Canary clients: is a hospital's whole contribution to be seen? For claims about a client (Andrew et al. 2023).

The canary's update is a direction of its own, longer than any clip: nothing that a client could train shows more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from torch import Tensor

from fluoroscope.defences import Chain, ServerDefence
from fluoroscope.federation.cohort import DefendedStrategy
from fluoroscope.federation.grid import InProcessGrid
from fluoroscope.federation.messages import to_arrays, to_state
from fluoroscope.federation.strategies import build_strategy
from fluoroscope.scenarios.canaries import CanaryGames
from fluoroscope.types import State, UpdateRecord

REACH = 1e3
"""The norm of a canary's update, which every sensible clip cuts."""


def update_games(record: UpdateRecord, defence: Chain, games: int, rng: torch.Generator) -> CanaryGames:
    """A client that goes one way, or the opposite one: what the server sees of each (local DP, "replace").

    Args:
        record: of any client without a defence: its network and state; its update is replaced.
        defence: what stands between the client and the server.
        games: of each kind.
        rng: of everything that is drawn.
    """
    way = _direction(record.state_before, rng)
    open_parts = defence.before_encryption()
    scores: dict[bool, list[Tensor]] = {True: [], False: []}
    for _ in range(games):
        for inside in (True, False):
            sign = REACH if inside else -REACH
            after = {name: value + sign * way[name] for name, value in record.state_before.items()}
            sent = open_parts.send(replace(record, state_after=after), rng)
            scores[inside].append(_along(sent.arrays, way))
    return CanaryGames(torch.stack(scores[True]), torch.stack(scores[False]))


def cohort_games(
    defence: ServerDefence,
    images: Sequence[int],
    state: State,
    games: int,
    rng: torch.Generator,
    strategy: str = "fedavg",
    settings: Mapping[str, object] | None = None,
) -> CanaryGames:
    """Rounds with the largest client's update and with a zero in its place; a participant sees what is released.

    Args:
        defence: what the server does to updates and to their mean.
        images: of each client of a round, which the mean is weighed by; the canary has the most.
        state: the parameters before the round.
        games: of each kind.
        rng: of everything that is drawn.
        strategy: of the server, by name.
        settings: of the strategy.
    """
    ways = [_direction(state, rng) for _ in images]
    canary = max(range(len(images)), key=lambda client: images[client])
    nothing = {name: torch.zeros_like(value) for name, value in state.items()}

    def client(message: Message, context: Context, inside: bool) -> Message:
        number = int(context.node_config["partition-id"])
        way = nothing if number == canary and not inside else ways[number]
        own = {name: value + REACH * way[name] for name, value in state.items()}
        metrics = MetricRecord({"num-examples": images[number], "loss": 0.0})
        return Message(RecordDict({"arrays": to_arrays(own), "metrics": metrics}), reply_to=message)

    scores: dict[bool, list[Tensor]] = {True: [], False: []}
    for _ in range(games):
        for inside in (True, False):
            seed = int(torch.randint(2**62, (), generator=rng))
            # Every game is a first round: a strategy's memory would tell of the games before.
            server = DefendedStrategy(build_strategy(strategy, settings or {}, len(images)), defence, seed)
            grid = InProcessGrid(
                lambda message, context, inside=inside: client(message, context, inside),  # type: ignore[arg-type]
                len(images),
                lambda reply: None,
            )
            messages = server.configure_train(1, to_arrays(state), ConfigRecord(), grid)
            released, _ = server.aggregate_train(1, grid.send_and_receive(messages))
            assert released is not None  # everyone answered
            change = {name: value - state[name] for name, value in to_state(released).items()}
            scores[inside].append(_along(change, ways[canary]))
    return CanaryGames(torch.stack(scores[True]), torch.stack(scores[False]))


def _direction(state: State, rng: torch.Generator) -> dict[str, Tensor]:
    """Of norm 1, at random: in many dimensions at right angles to everything else."""
    drawn = {name: torch.randn(value.shape, generator=rng).to(value.device) for name, value in state.items()}
    length = torch.stack([value.square().sum() for value in drawn.values()]).sum().sqrt()
    return {name: value / length for name, value in drawn.items()}


def _along(update: State, way: State) -> Tensor:
    return torch.stack([(value.double() * way[name].double()).sum() for name, value in update.items()]).sum()
