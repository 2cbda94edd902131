"""The cells of recorded updates: images, and label counts, from one update each.

Where the client's own images are here, guesses are scored against them. Where they are not, what is said is how the
attack does on simulated clients; whether its guess is right nobody here can say.
"""

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from fluoroscope.audit.cell import FoundCell
from fluoroscope.audit.chosen_attacks import rehearsed_row
from fluoroscope.audit.gallery import shown
from fluoroscope.audit.kept import result_of
from fluoroscope.audit.levels import SIGNIFICANT
from fluoroscope.audit.scored import Measured, finite, scores_of
from fluoroscope.audit.updates.told import Prepared, Told, prepare
from fluoroscope.cells import CellContext, Result
from fluoroscope.digest import digest
from fluoroscope.errors import Unsupported
from fluoroscope.findings import Finding, Kind, RehearsedAttack, Score
from fluoroscope.integrations.pairs import open_updates
from fluoroscope.rng import generator
from fluoroscope.scenarios.auto_attacks import AUTO
from fluoroscope.scenarios.rehearsed import Rehearsed
from fluoroscope.scores.intervals import Interval, bootstrap_mean
from fluoroscope.scores.label_counts import score_mixes
from fluoroscope.scores.null import AgainstOthers, against_others
from fluoroscope.scores.rdlv import mean_rdlv, rdlv
from fluoroscope.site.label_counts import GuessedCounts, guess_label_counts, shares
from fluoroscope.site.learned import folder_for
from fluoroscope.site.simulated import Simulated
from fluoroscope.site.time_left import TimeLeft
from fluoroscope.site.trials import Trials, play
from fluoroscope.types import PrivateBatch

SHOWN = 6


@dataclass(frozen=True)
class UpdateCell(FoundCell):
    """One thing to try on one update."""

    threat: ClassVar[str | None] = "curious-server"
    told: Told
    seconds: float = 90.0
    """By the clock; attacks that do not fit are named."""

    @property
    def data(self) -> str:
        place = open_updates(Path(self.told.folder)).place(self.told.round, self.told.client)
        return "\n".join(each for each in (str(place), self.told.images, self.told.public) if each)

    @property
    def settings(self) -> dict[str, Any]:
        return {"attack": AUTO, "client": self.told.client, "round": self.told.round}

    @property
    def id(self) -> str:
        """Two names of clients that are written alike in an id are told apart."""
        name = self.told.client
        same = name.lower() == name and all(c.isalnum() or c == "-" for c in name)
        return super().id if same else f"{super().id}-{digest(name)[:6]}"

    def run(self, context: CellContext) -> Result:
        time_left = TimeLeft(self.seconds)
        update = prepare(self.told, context.seed)
        ground = update.ground(context.seed, time_left)
        context.on_progress(0.1)
        return self.attacked(update, ground, time_left, context)

    @abstractmethod
    def attacked(self, update: Prepared, ground: Simulated, time_left: TimeLeft, context: CellContext) -> Result:
        """What this cell tries on the update, beside simulated clients."""


@dataclass(frozen=True)
class RecordedReconstruction(UpdateCell):
    """Images from one update, by the attack that does best on simulated clients."""

    kind: ClassVar[Kind] = "reconstruction"

    def attacked(self, update: Prepared, ground: Simulated, time_left: TimeLeft, context: CellContext) -> Result:
        seed = context.seed
        with folder_for(context.checkpoint, ground.seen, update.public, seed) as folder:
            trials = play(ground, folder, seed, time_left)
        context.on_progress(0.9)
        best = trials.best
        if best is None:
            return self._nothing(trials, ground)
        guess = trials.guesses[best.name].images.cpu()
        if update.own is None:
            _check_training(ground)
            images = update.record.training.images
            scores = scores_of(self.kind, leak=None, images=images) | _rehearsal(best)
            return result_of(Finding(scores=scores, attacked="recorded update", rehearsed=_rows(trials, None)))
        return self._scored(ground, trials, best, guess, update.own, seed)

    def _nothing(self, trials: Trials, ground: Simulated) -> Result:
        able = trials.able
        if able is None:
            raise Unsupported(f"no attack that was tried makes a guess ({trials.rehearsal.why_none()}).")
        _check_training(ground)
        quiet = scores_of(self.kind, gave_up=Measured(1, 1))
        why = f"{able.name} works on simulated clients of this training and gave up on this update."
        finding = Finding(scores=quiet, attacked="recorded update", gave_up=why, rehearsed=_rows(trials, None))
        return result_of(finding)

    def _scored(
        self, ground: Simulated, trials: Trials, best: Rehearsed, guess: Tensor, own: PrivateBatch, seed: int
    ) -> Result:
        prior, rng = ground.learning.images.mean(0), generator(seed, "audit", "bootstrap")
        beside = against_others([guess], [own.images], prior, rng, ground.others)
        if beside.p_value > SIGNIFICANT or beside.leak.mean <= 0:
            _check_training(ground)  # nothing found of a training that was told wrongly is nothing judged
        leaked, few = rdlv(guess, own.images, prior), range(min(SHOWN, len(guess)))
        scores = scores_of(
            self.kind,
            leak=beside.leak,
            told_apart=Measured(beside.told_apart, chance=beside.chance),
            line_up=Measured(beside.line_up, chance=beside.line_up_chance),
            found=Measured(sum(int(each.sum()) for each in beside.found), len(own)),
            images=len(own),
            p_value=Measured(beside.p_value, 1),
            rdlv=mean_rdlv(leaked.values, rng),
            null=beside.null,
            ssim=bootstrap_mean(leaked.similarity, rng),
            ssim_prior=float(leaked.prior_similarity.mean()),
        )
        finding = Finding(
            scores=scores | _rehearsal(best),
            gallery=shown(
                self.id,
                [f"{self.told.client}, round {self.told.round}, image {i + 1}" for i in few],
                [{"ssim": float(leaked.similarity[i]), "rdlv": float(leaked.values[i])} for i in few],
            ),
            attacked="recorded update",
            rehearsed=_rows(trials, beside),
        )
        originals = own.images[leaked.nearest][: len(few)]
        return result_of(
            finding,
            {"original": originals, "reconstruction": guess[: len(few)].clamp(0, 1), "prior": prior},
        )


@dataclass(frozen=True)
class RecordedLabelCounts(UpdateCell):
    """How many images of each class, from one update."""

    kind: ClassVar[Kind] = "label-counts"

    def attacked(self, update: Prepared, ground: Simulated, time_left: TimeLeft, context: CellContext) -> Result:
        guessed, _ = guess_label_counts(ground, context.seed, time_left)
        scores = _about_own(guessed, update, ground, context.seed) | scores_of(
            self.kind,
            rehearsal_gain=guessed.scored.gain,
            rehearsal_p_value=Measured(guessed.scored.p_value, guessed.clients),
        )
        return result_of(Finding(scores=scores | self._counts(guessed, update.record.training.images)))

    def _counts(self, guessed: GuessedCounts, images: int) -> dict[str, Score]:
        """The guess itself, class by class."""
        names = self.told.classes if len(self.told.classes) == len(guessed.shares) else ()
        pairs = zip(guessed.shares.tolist(), guessed.public.tolist(), strict=True)
        return {
            f"guessed {names[i] if names else f'class {i}'}": Score(value=finite(images * share), chance=images * known)
            for i, (share, known) in enumerate(pairs)
        }


def _about_own(guessed: GuessedCounts, update: Prepared, ground: Simulated, seed: int) -> dict[str, Score]:
    """Against the truth where it is here.

    One client gives no interval, so that the simulated ones stand beside it, as stand-ins do in an audit of a plan. A
    guess that is no nearer than the public mix stands alone: whatever the attack can do, it did not do it here.
    """
    if update.own is None:
        _check_training(ground)
        return scores_of("label-counts", gain=None)
    truth = shares(update.own.labels, len(guessed.public))
    error, known = (float((each - truth).abs().mean()) for each in (guessed.shares, guessed.public))
    own = scores_of("label-counts", error=error, error_public=known)
    if known <= error:
        _check_training(ground)
        return scores_of("label-counts", gain=Measured(known - error, 1, chance=0.0)) | own
    everybody = torch.cat([guessed.guesses, guessed.shares[None]]), torch.cat([guessed.truth, truth[None]])
    rng = generator(seed, "audit", "label counts", "bootstrap")
    found = score_mixes(*everybody, guessed.public, torch.zeros(guessed.clients + 1), rng)
    sure = Measured(found.p_value, guessed.clients + 1)
    return scores_of("label-counts", gain=Measured(found.gain, chance=0.0), p_value=sure) | own


def _check_training(ground: Simulated) -> None:
    if odd := ground.oddity():
        raise Unsupported(f"{odd}.")


def _rehearsal(row: Rehearsed) -> dict[str, Score]:
    return scores_of(
        "reconstruction",
        rehearsal_leak=row.leak,
        rehearsal_told_apart=Measured(row.told_apart, chance=row.chance),
        rehearsal_p_value=row.p_value,
    )


def _rows(trials: Trials, beside: AgainstOthers | None) -> tuple[RehearsedAttack, ...]:
    best = trials.best
    played: Interval | None = None if beside is None else beside.leak
    rows = [
        rehearsed_row(row, "best", played) if row is best else rehearsed_row(row, None, None)
        for row in trials.rehearsal.rows
    ]
    known = {row.attack for row in rows}
    parts = (line.partition(": ") for line in trials.left_out)
    others = {name: why for name, _, why in parts if name not in known}
    return (*rows, *(RehearsedAttack(attack=name, applies=False, reason=why) for name, why in others.items()))
