"""An honest-but-curious server: what it makes of an update that it was sent, and how near it came."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fluoroscope.attacks import ATTACKS, Attack
from fluoroscope.attacks.common.checkpoint import Checkpoint
from fluoroscope.attacks.gradient_inversion.attack import Inversion
from fluoroscope.attacks.gradient_inversion.label_handling import Known
from fluoroscope.defences import NO_DEFENCE, Chain, Defence, chain
from fluoroscope.errors import BadInput
from fluoroscope.rng import generator
from fluoroscope.scores.intervals import Interval, bootstrap_mean
from fluoroscope.scores.rdlv import mean_rdlv
from fluoroscope.scores.reconstruction import ImageScore
from fluoroscope.scores.reconstruction import score as score_images
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import Capability, Knowledge, LabelledImages, Observation, Reconstruction, UpdateRecord

THREAT = "curious-server"


def attack(
    record: UpdateRecord,
    attack: str | Attack,
    *,
    public_mean: Tensor | None = None,
    public_images: LabelledImages | None = None,
    defence: Defence | None = None,
    labels: Tensor | None = None,
    seed: int = 0,
    device: str = "cpu",
    on_iteration: Callable[[int, int], None] = lambda iteration, iterations: None,
    checkpoint: Checkpoint | None = None,
) -> Reconstruction:
    """Play an honest-but-curious server against one client's update: gradient inversion.

    The attack sees the update, the BatchNorm statistics that were sent, the network and the training, and what you
    give it here. It runs in this process, where your own program may hold the client's images: to attack with code that
    you do not trust, use `fluoroscope.scenarios.isolation.run_isolated`, as audits and `fluoroscope attack` do.

    Args:
        record: what left the client; see `UpdateRecord.between`.
        attack: a registered name such as "inverting-gradients", "epochwise" or "span", or an attack with settings.
        public_mean: (channels, height, width), the mean of public images of the same kind: many attacks start from it.
            Default: that of `public_images`.
        public_images: public images of the same kind with labels, from which learned attacks learn ("ridge", "decoder",
            "map-inversion").
        defence: what the client had behind its update, as the attacker knows it; default: none.
        labels: the true labels, for a study that grants them; nobody has them by position.
        seed: of all that the attack draws.
        device: where it computes.
        on_iteration: called with how many iterations of how many are done.
        checkpoint: where a killed attack resumes.

    Returns:
        The guessed images, in no order. `nothing` says why there are none, where the update showed none.

    Raises:
        Unsupported: the attack does not apply to this network or training, or needs what it was not given.
        Misconfigured: there is no attack of this name.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> import fluoroscope as fl
        >>> model = nn.Sequential(nn.Conv2d(1, 4, 3, 2), nn.Sigmoid(), nn.Flatten(), nn.Linear(36, 2))
        >>> before = {name: value.clone() for name, value in model.state_dict().items()}
        >>> image, label = torch.rand(1, 1, 8, 8), torch.tensor([1])
        >>> loss = nn.functional.cross_entropy(model(image), label)
        >>> gradients = dict(zip(before, torch.autograd.grad(loss, list(model.parameters()))))
        >>> after = {name: value - gradients[name] for name, value in before.items()}
        >>> training = fl.LocalTraining(fl.OneGradient(), images=1, batch_size=1)
        >>> record = fl.UpdateRecord.between(model, before, after, training, input_shape=(1, 8, 8))
        >>> fl.attack(record, "idlg").images.shape
        torch.Size([1, 1, 8, 8])
    """
    chosen = ATTACKS.get(attack) if isinstance(attack, str) else attack
    knowledge = THREATS.get(THREAT)
    if labels is not None:
        knowledge, chosen = knowledge.granted(Capability.LABELS), with_known_labels(chosen)
    if public_mean is None and public_images is not None:
        public_mean = public_images.images.mean(0)
    known = NO_DEFENCE if defence is None else chain(defence)
    seen = to_device(seen_by(record, knowledge, public_mean, labels, public_images, known), device)
    (guess,) = chosen.run([seen], generator(seed, "attack"), on_iteration, checkpoint)
    return guess


def seen_by(
    record: UpdateRecord,
    knowledge: Knowledge,
    public_mean: Tensor | None,
    labels: Tensor | None,
    public_images: LabelledImages | None = None,
    defence: Chain | None = None,
) -> Observation:
    """What this attacker sees of the record; images of another shape than the network's are refused."""
    shape = record.network.input_shape
    if public_mean is not None and tuple(public_mean.shape) != shape:
        raise BadInput(
            f"public_mean has the shape {tuple(public_mean.shape)}, and {record.network.name} takes {shape}."
        )
    if public_images is not None and tuple(public_images.images.shape[1:]) != shape:
        raise BadInput(
            f"public_images have the shape {tuple(public_images.images.shape[1:])}, and {record.network.name} takes "
            f"{shape}."
        )
    if labels is not None and len(labels) != record.training.images:
        raise BadInput(f"{len(labels)} labels were given for {record.training.images} images.")
    return observe(record, knowledge, public_mean, labels, public_images=public_images, defence=defence)


def with_known_labels(attack: Attack) -> Attack:
    """Told the labels, an attack neither guesses nor optimises them."""
    return replace(attack, labels=Known()) if isinstance(attack, Inversion) else attack


@dataclass(frozen=True)
class ReconstructionScore:
    """How near guesses came, over all of them. One guess alone has a mean, and no ends to its interval."""

    ssim: Interval
    psnr: Interval
    rdlv: Interval | None
    """P1 eq. 6: how much nearer than the public mean. None where that was not given."""
    ssim_prior: Interval | None
    """Of the public mean: what the attacker had without an attack."""
    images: tuple[ImageScore, ...]
    missing: int
    """Originals for which there is no guess."""

    def __str__(self) -> str:
        parts = [f"SSIM {_said(self.ssim)}", f"PSNR {_said(self.psnr)} dB"]
        if self.ssim_prior is not None and self.rdlv is not None:
            parts += [f"public mean's SSIM {self.ssim_prior.mean:.3f}", f"RDLV {_said(self.rdlv)}"]
        return f"{len(self.images)} images: {', '.join(parts)}" + (f"; {self.missing} missing" if self.missing else "")


def score(
    guess: Reconstruction | Sequence[Reconstruction],
    originals: Tensor | Sequence[Tensor],
    *,
    public_mean: Tensor | None = None,
    seed: int = 0,
) -> ReconstructionScore:
    """Score guesses against the images that they should have been.

    Guesses are matched with originals so that the sum of SSIM is largest (Hungarian), client by client.

    Args:
        guess: what an attack made of one client's update, or of several clients'.
        originals: that client's images (n, channels, height, width), or each client's.
        public_mean: what the attacker had before; then RDLV says how much nearer it came.
        seed: of the bootstrap.

    Returns:
        Means with their 95 % intervals, and every image's own numbers.

    Raises:
        BadInput: there are not as many sets of originals as guesses, or shapes differ.

    Example:
        >>> import torch
        >>> import fluoroscope as fl
        >>> truth = torch.rand(3, 1, 16, 16, generator=torch.Generator().manual_seed(0))
        >>> exact = fl.Reconstruction(truth.flip(0), labels=None, objective=0.0)
        >>> round(fl.score(exact, truth).ssim.mean, 6)
        1.0
    """
    guesses = [guess] if isinstance(guess, Reconstruction) else list(guess)
    truths = [originals] if isinstance(originals, Tensor) else list(originals)
    if len(guesses) != len(truths):
        raise BadInput(f"{len(guesses)} guesses need as many sets of originals, not {len(truths)}.")
    for each, truth in zip(guesses, truths, strict=True):
        if each.images.shape[1:] != truth.shape[1:]:
            raise BadInput(f"a guess of shape {tuple(each.images.shape)} cannot be scored on {tuple(truth.shape)}.")
    pairs = zip(guesses, truths, strict=True)
    images = [row for each, truth in pairs for row in score_images(each.images.cpu(), truth, public_mean)]
    rng = generator(seed, "score")

    def mean(name: str) -> Interval:
        return bootstrap_mean(_column(images, name), rng)

    return ReconstructionScore(
        ssim=mean("ssim"),
        psnr=mean("psnr"),
        rdlv=None if public_mean is None else mean_rdlv(_column(images, "rdlv"), rng),
        ssim_prior=None if public_mean is None else mean("ssim_prior"),
        images=tuple(images),
        missing=sum(map(len, truths)) - len(images),
    )


def _column(images: Iterable[ImageScore], name: str) -> Tensor:
    values = [getattr(image, name) for image in images]
    return torch.tensor([float("nan") if value is None else value for value in values], dtype=torch.float64)


def _said(interval: Interval) -> str:
    if interval.low != interval.low:  # NaN: one value has no spread
        return f"{interval.mean:.3f}"
    return f"{interval.mean:.3f} ({interval.low:.3f} to {interval.high:.3f})"


def to_device(observation: Observation, device: str) -> Observation:
    """The same, where the attack computes."""
    if device == "cpu":
        return observation
    moved: dict[str, Any] = {}
    for name in ("state_before", "update", "buffers_before", "buffers_after"):
        state = getattr(observation, name)
        moved[name] = None if state is None else {key: value.to(device) for key, value in state.items()}
    for name in ("public_mean", "labels"):
        tensor = getattr(observation, name)
        moved[name] = None if tensor is None else tensor.to(device)
    return replace(observation, **moved)
