"""Canary images: does a client's update show whether one image was in it? For claims about a record."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fluoroscope.attacks.inference import InferenceAttack
from fluoroscope.attacks.inference.gradient_alignment import GradientAlignment, alignment, gradients, norms
from fluoroscope.defences import Chain
from fluoroscope.errors import Misconfigured
from fluoroscope.federation.client_round import client_round
from fluoroscope.scenarios.canaries import CanaryGames
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import LabelledImages, LocalTraining, Loss, Network, Observation, PrivateBatch, State

_ALIGNMENT = GradientAlignment()
ZEROED = -1
"""The label of an image that adds nothing."""


@dataclass(frozen=True)
class ZeroedOut(Loss):
    """A loss to which images of the label `ZEROED` add nothing: the neighbour in a zero-out relation."""

    inner: Loss

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.per_image(outputs, targets).mean()

    def per_image(self, outputs: Tensor, targets: Tensor) -> Tensor:
        there = (targets != ZEROED).flatten(1).all(1) if targets.ndim > 1 else targets != ZEROED
        return self.inner.per_image(outputs, targets.clamp_min(0)) * there

    def soft(self, logits: Tensor) -> Tensor:
        return self.inner.soft(logits)

    def pulled(self, soft: Tensor, cotangent: Tensor) -> Tensor:
        return self.inner.pulled(soft, cotangent)

    @property
    def multi_label(self) -> bool:
        return self.inner.multi_label


def strongest_canary(
    network: Network, state: State, training: LocalTraining, candidates: PrivateBatch
) -> tuple[PrivateBatch, float]:
    """Of all candidates under all labels, the one with the longest gradient at these weights, and its length.

    A canary whose gradient is shorter than the clip shows less than the claim allows for. The attacker chooses it, from
    images of its own and weights that it sent.
    """
    seen = _sent(network, state, training)
    classes = candidates.labels.new_tensor(range(_outputs(network, state, candidates)))
    best, longest = None, -1.0
    for i in range(len(candidates)):
        image = candidates.subset([i])
        for label in [1 - image.labels] if training.loss.multi_label else classes[:, None]:
            length = float(norms(gradients(seen, LabelledImages(image.images, label)))[0])
            if length > longest:
                best, longest = replace(image, labels=label), length
    if best is None:
        raise Misconfigured("a canary is chosen among candidates, and there are none: give some phantoms.")
    return best, longest


def record_games(
    network: Network,
    state: State,
    canary: PrivateBatch,
    others: PrivateBatch | None,
    training: LocalTraining,
    defence: Chain,
    games: int,
    rng: torch.Generator,
) -> CanaryGames:
    """Rounds of a client with the canary, and as many with it zeroed out; the server looks at each update.

    Args:
        network: what is trained.
        state: what the server sent.
        canary: one image, under whatever label shows most.
        others: the client's other images, in every game; None where it has none.
        training: of a client with one image more than `others`.
        defence: what the claim is about.
        games: of each kind.
        rng: of everything that is drawn.
    """
    if len(canary) != 1:
        raise Misconfigured(f"a game has one canary, not {len(canary)}.")
    training = replace(training, loss=ZeroedOut(training.loss))
    rows = gradients(_sent(network, state, training), LabelledImages(canary.images, canary.labels))
    knowledge = THREATS.get("curious-server")
    scores: dict[bool, list[Tensor]] = {True: [], False: []}
    for _ in range(games):
        for inside in (True, False):
            batch = _client(canary if inside else zeroed(canary), others)
            record = client_round(network, state, batch, training, rng, defence).record
            scores[inside].append(alignment(observe(record, knowledge).update or {}, rows)[0])
    return CanaryGames(torch.stack(scores[True]), torch.stack(scores[False]))


def one_run_games(
    network: Network,
    state: State,
    canaries: PrivateBatch,
    training: LocalTraining,
    defence: Chain,
    rng: torch.Generator,
    others: PrivateBatch | None = None,
    distinguisher: InferenceAttack = _ALIGNMENT,
) -> tuple[Tensor, Tensor]:
    """One round of a client with canaries, each there by a coin of its own.

    Args:
        network: what is trained.
        state: what the server sent.
        canaries: images under whatever labels.
        training: of a client with all of these images.
        defence: what the claim is about.
        rng: of everything that is drawn.
        others: the client's other images; None where all of them are canaries.
        distinguisher: what scores the canaries, from the update.

    Returns:
        A score and a coin per canary, as `one_run_epsilon` takes them; those of further rounds may be added.
    """
    training = replace(training, loss=ZeroedOut(training.loss))
    coins = torch.rand(len(canaries), generator=rng) < 0.5
    there = coins.reshape(-1, *[1] * (canaries.labels.ndim - 1))
    planted = replace(canaries, labels=torch.where(there, canaries.labels, zeroed(canaries).labels))
    record = client_round(network, state, _client(planted, others), training, rng, defence).record
    seen = observe(record, THREATS.get("curious-server"))
    asked = LabelledImages(canaries.images, canaries.labels)
    return distinguisher.run([seen], asked, rng)[0], coins


def zeroed(batch: PrivateBatch) -> PrivateBatch:
    """The images as they are, to add nothing to a loss that is `ZeroedOut`."""
    return replace(batch, labels=torch.full_like(batch.labels, ZEROED))


def _client(canary: PrivateBatch, others: PrivateBatch | None) -> PrivateBatch:
    if others is None:
        return canary
    return PrivateBatch(
        torch.cat([canary.images, others.images]),
        torch.cat([canary.labels, others.labels]),
        (*canary.patients, *others.patients),
    )


def _sent(network: Network, state: State, training: LocalTraining) -> Observation:
    """What the server knows before anything comes back."""
    return Observation(
        THREATS.get("curious-server"), 1, ("client",), network=network, training=training, state_before=state
    )


def _outputs(network: Network, state: State, images: PrivateBatch) -> int:
    module = network.build().eval()
    module.load_state_dict(dict(state))
    with torch.no_grad():
        return int(module(images.images[:1]).shape[1])
