"""P2's threat on a plan's own federation: victims in turn, round after round, with or without the clients' guard."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from flwr.app import Context, Message

from fluoroscope.attacks.imprint import MediLeak, merged
from fluoroscope.defences.guard import Verdict
from fluoroscope.errors import BadInput, Misconfigured, Refused
from fluoroscope.federation.consistency import consistency_mod
from fluoroscope.federation.guard import Mod, Next, guard_mod
from fluoroscope.federation.secure_aggregation import Participant
from fluoroscope.federation.task import Task
from fluoroscope.scenarios.malicious_round import Aggregation, Decoder, RecoveryResult, malicious_round, scored


@dataclass(frozen=True, eq=False)
class MaliciousServer:
    """What the server does."""

    victims: tuple[int, ...]
    """Clients by number, one a round in turn."""
    rounds: int
    neurons: int | None
    """None: twice the victim's images."""
    decoder: Decoder
    aggregation: Aggregation
    steady: bool = False


@dataclass(frozen=True, eq=False)
class Outcome:
    """How it ended."""

    recoveries: tuple[RecoveryResult, ...]
    """For each victim everything that was harvested from it; empty where the clients refused."""
    refused: str
    """What the clients said; empty where nobody refused."""
    verdicts: dict[str, Verdict]
    """Of each client's guard, where it was on."""

    def plain(self) -> dict[str, Any]:
        """As data: what `--json` prints and findings.json holds."""
        return {
            "refused": self.refused or None,
            "victims": [row(each) for each in self.recoveries],
            "verdicts": {name: verdict.plain() for name, verdict in self.verdicts.items()},
        }


def row(each: RecoveryResult) -> dict[str, Any]:
    """One victim's line."""
    score = each.score
    return {
        "victim": each.victim,
        "images": len(score.recovered),
        "recovered": int(score.recovered.sum()),
        "rate": score.rate.mean,
        "rate_low": score.rate.low,
        "rate_high": score.rate.high,
        "foreseen": each.foreseen,
        "wrong": each.wrong,
        "sure_wrong": each.sure_wrong,
        "psnr": each.psnr,
        "ssim": each.ssim,
        "seconds": each.seconds,
    }


def participants(task: Task) -> list[Participant]:
    """The plan's clients, each with its images and its training."""
    settings = task.plan.training
    found = []
    for number, split in enumerate(task.clients):
        images = len(split.train)
        training = task.training(images, split.batch_size or settings.batch_size, settings.epochs, settings.lr)
        found.append(Participant(split.name, task.train_batch(number), training, task.defence))
    return found


def run_malicious_rounds(
    task: Task,
    server: MaliciousServer,
    guard: bool,
    seed: int,
    tell: Callable[[int, int, str], None] = lambda i, n, what: None,
    consistency: bool = False,
) -> Outcome:
    """Rounds of crafted models through secure aggregation.

    With the guard on, clients look at a model first, and what it lets through is summed with `consistency`: to noise,
    where they were sent different models.
    """
    if not task.partition.auxiliary:
        raise Misconfigured("the attacker has no images of its own: set partition.auxiliary in the plan.")
    everyone = participants(task)
    auxiliary = task.images.batch.subset(task.partition.auxiliary)
    verdicts: dict[str, Verdict] = {}
    mods = [_guards(task, everyone, verdicts)] if guard else []
    if guard or consistency:
        mods.append(consistency_mod(drop_outs=False))  # a round that loses a client is not played on here anyway
    parts: dict[int, list[RecoveryResult]] = {}
    for number in range(server.rounds):
        victim = server.victims[number % len(server.victims)]
        target = everyone[victim]
        tell(number, server.rounds, f"round {number + 1}: {target.name}")
        attack = MediLeak(server.neurons or 2 * len(target.batch), steady=server.steady)
        try:
            recoveries = malicious_round(
                task.network,
                task.initial_state,
                everyone,
                victim,
                auxiliary,
                attack,
                server.decoder,
                server.aggregation,
                seed,
                number + 1,
                mods=mods,
            )
        except Refused as refusal:
            return Outcome((), str(refusal), verdicts)
        parts.setdefault(victim, []).append(recoveries)
    harvested = [
        found[0]
        if len(found) == 1
        else scored(
            everyone[victim],
            merged([each.recovered for each in found]),
            sum(each.round_seconds for each in found),
            sum(each.seconds for each in found),
        )
        for victim, found in parts.items()
    ]
    return Outcome(tuple(harvested), "", verdicts)


def _guards(task: Task, everyone: Sequence[Participant], verdicts: dict[str, Verdict]) -> Mod:
    """Each client's own guard: it knows the agreed network and its own images."""
    own = [
        guard_mod(task.model, each.batch.images, told=lambda verdict, name=each.name: verdicts.update({name: verdict}))  # type: ignore[misc]
        for each in everyone
    ]

    def mod(message: Message, context: Context, call_next: Next) -> Message:
        return own[int(context.node_config["partition-id"])](message, context, call_next)

    return mod


def chosen_victims(task: Task, names: Sequence[str]) -> tuple[int, ...]:
    """Clients by name; the first where none is named."""
    known = [split.name for split in task.clients]
    for name in names:
        if name not in known:
            raise BadInput(f"there is no client {name!r}; the partition has {', '.join(known)}.")
    return tuple(known.index(name) for name in names) or (0,)
