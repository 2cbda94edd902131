"""P1's defended federation, once: trained under a defence, one client attacked, what leaks and what it costs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from fluoroscope.attacks import ATTACKS, Attack
from fluoroscope.attacks.gradient_inversion.attack import Inversion
from fluoroscope.attacks.gradient_inversion.single_step import as_single_step_if_long
from fluoroscope.attacks.gradient_inversion.stages import StatisticsFirst
from fluoroscope.cells import CellContext, Result
from fluoroscope.data.partition.p1 import TABLE_II
from fluoroscope.errors import Unsupported
from fluoroscope.federation.privacy import claimed
from fluoroscope.rng import generator
from fluoroscope.scenarios.identifiability import embedded, identified, identified_by_chance
from fluoroscope.scenarios.stand_ins import other_patients
from fluoroscope.scores.null import against_others
from fluoroscope.scores.rdlv import mean_rdlv, rdlv
from fluoroscope.studies.p1.federation import SCALES, Federation, Named, Scale, Trained
from fluoroscope.studies.timed_attack import timed_attack
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import Capability, PrivateBatch, Reconstruction

HIGH_RISK = 9
NEAREST = (1, 2, 5, 10, 20)
"""k of k-IIP (P1 fig. 11)."""
OTHERS = 8
"""Sets of further patients that a guess is told apart from, where there are as many."""
TOLD = ("leak", "leak_low", "leak_high", "told_apart", "chance", "p_value")
SHOWN = 48
"""Of a client's images in the projection."""


@dataclass(frozen=True)
class Defended:
    """One client of a federation. In client 9's place stand held-out patients; others are attacked as they are."""

    client: int
    scale: Scale
    round: int
    victims: int = 1
    """Patients in client 9's place."""
    defence: tuple[Named, ...] = ()
    attack_name: str = "epochwise"
    model: str | None = None
    """Another network than the scale's."""
    quick: bool = False
    """A third of the attack's iterations."""
    data: str = "phantom/chest"

    @property
    def settings(self) -> dict[str, Any]:
        images, batch_size = TABLE_II[self.client]
        given = {key: value for _, settings in self.defence for key, value in settings}
        return {
            "data": self.data,
            "size": SCALES[self.scale]["data"]["size"],
            "model": self.model or SCALES[self.scale]["model"]["name"],
            "attack": self.attack_name,
            "client": f"client-{self.client}",
            "images": images,
            "batch_size": batch_size,
            "round": self.round,
            "defence": " + ".join(_told(part) for part in self.defence) or "none",
            "sigma0": given.get("noise_scale", 0.0),
            "clip_norm": given.get("clip_norm"),
            "noise_multiplier": given.get("noise_multiplier"),
            "victims": self.victims if self.client == HIGH_RISK else 1,
        }

    @property
    def attack(self) -> Attack:
        attack = ATTACKS.get(self.attack_name)
        if not (self.quick and isinstance(attack, Inversion)):
            return attack
        stages = attack.stages
        if stages is not None:
            several, one = stages.grids.several, stages.grids.one
            quick = replace(
                stages.grids,
                several=replace(several, iterations=several.iterations // 3),
                one=replace(one, iterations=one.iterations // 3),
            )
            stages = replace(stages, grids=quick)
        if isinstance(stages, StatisticsFirst):
            stages = replace(stages, iterations=stages.iterations // 2)
        budget = replace(attack.budget, iterations=max(1, attack.budget.iterations // 3))
        return replace(attack, budget=budget, stages=stages)

    @property
    def learns(self) -> bool:
        """Whether the attack simulates rounds on public images."""
        return Capability.PUBLIC_IMAGES in self.attack.needs

    def run(self, context: CellContext) -> Result:
        trained = Federation(self.scale, self.data, defence=self.defence, model=self.model).trained(
            context.seed, context.folder
        )
        if not all(value.isfinite().all() for value in trained.states[self.round].values()):
            raise Unsupported(f"under this defence the model of round {self.round} holds numbers that are not finite.")
        clients = self._clients(trained)
        seen, records, task = [], [], trained.task
        known, public, defence = THREATS.get("curious-server"), task.public_images, task.defence
        for number, victims in enumerate(clients):
            rng = generator(context.seed, "p1", "client", self.client, number)
            records.append(trained.update(self.round, victims, TABLE_II[self.client][1], rng))
            observed = observe(records[-1], known, trained.prior, public_images=public, defence=defence)
            # Attackers that learn simulate the round as it is.
            seen.append(observed if self.learns else as_single_step_if_long(observed))
        guesses, seconds = timed_attack(self.attack, seen, generator(context.seed, "p1", "attack"), context)
        leaked = [rdlv(g.images, v.images, trained.prior) for g, v in zip(guesses, clients, strict=True)]
        interval = mean_rdlv(torch.cat([each.values for each in leaked]), generator(context.seed, "p1", "bootstrap"))
        found = [identified(trained.task, g.images, v, NEAREST) for g, v in zip(guesses, clients, strict=True)]
        beside = _beside(trained, guesses, clients, generator(context.seed, "p1", "null"))
        claim = claimed(trained.task, records[0].training, self.round)
        nearest = [victims.images[each.nearest] for each, victims in zip(leaked, clients, strict=True)]
        return Result(
            {
                "ssim": float(torch.cat([each.similarity for each in leaked]).mean()),
                "ssim_prior": float(torch.cat([each.prior_similarity for each in leaked]).mean()),
                "rdlv": interval.mean,
                "rdlv_low": interval.low,
                "rdlv_high": interval.high,
                **beside,
                "gave_up": sum(bool(guess.nothing) for guess in guesses),
                "iip": sum(each[0] for each in found) / len(found),
                "iip_chance": identified_by_chance(trained.task, clients[0], len(guesses[0].images)),
                "test_accuracy": trained.test_accuracy,
                "epsilon": claim.epsilon,
                "seconds": seconds,
            },
            curves={
                "k": list(map(float, NEAREST)),
                "k_iip": [sum(each[i] for each in found) / len(found) for i in range(len(NEAREST))],
            },
            images={
                "originals": torch.cat(nearest)[:2],
                "reconstructions": torch.cat([guess.images for guess in guesses])[:8],
                "prior": trained.prior[None],
                "embedded originals": embedded(torch.cat([v.images for v in clients])[:SHOWN]),
                "embedded reconstructions": embedded(torch.cat([g.images for g in guesses]).clamp(0, 1)),
            },
        )

    def _clients(self, trained: Trained) -> list[PrivateBatch]:
        if self.client == HIGH_RISK:
            return trained.held_out(self.victims, 1, False)
        names = [client.name for client in trained.task.clients]
        return [trained.task.train_batch(names.index(f"client-{self.client}"))]


def _beside(
    trained: Trained, guesses: Sequence[Reconstruction], clients: Sequence[PrivateBatch], rng: torch.Generator
) -> dict[str, float | None]:
    """Told apart from other patients, in sets of a client's size; None where a client holds most of all images."""
    others = [] if len(clients) > 1 else other_patients(trained.task, clients, OTHERS)
    if len(clients) + len(others) < 2:
        return dict.fromkeys(TOLD)
    found = against_others(
        [guess.images for guess in guesses],
        [victims.images for victims in clients],
        trained.prior,
        rng,
        others=others,
        gave_up=[bool(guess.nothing) for guess in guesses],
    ).numbers()
    return {name: found[name] for name in TOLD}


def _told(part: Named) -> str:
    """The name, with settings that have no column of their own."""
    name, settings = part
    rest = [f"{key}={value}" for key, value in settings if key not in ("noise_scale", "clip_norm", "noise_multiplier")]
    return f"{name} ({', '.join(rest)})" if rest else name
