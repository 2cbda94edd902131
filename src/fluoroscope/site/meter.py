"""The meter: what an honest-but-curious server could read of one update, before it is sent.

The site holds the truth, so guesses are scored against its own images. Nothing else is done with them: attacks run in
a process that does not have them, and which attack counts is decided by simulated clients of public images.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from fluoroscope.defences import NO_DEFENCE, Defence, chain
from fluoroscope.errors import BadInput, Unsupported
from fluoroscope.scenarios.isolation import run_isolated
from fluoroscope.scenarios.rehearsal import Run
from fluoroscope.site.label_counts import read_label_counts
from fluoroscope.site.learned import folder_for
from fluoroscope.site.reading import Metered, Reading, not_judged
from fluoroscope.site.reconstruction import Guessed, read_reconstruction, read_without_public
from fluoroscope.site.simulated import simulated, without_own
from fluoroscope.site.time_left import TimeLeft
from fluoroscope.site.trials import play
from fluoroscope.types import LabelledImages, PrivateBatch, UpdateRecord

USUAL = 90.0
"""Seconds, where no budget is given."""
SMALLEST = 11
"""Pixels of a side that SSIM's window needs."""
_COUNTS_NEED_PUBLIC = "Not judged: label counts are read with the help of public images: give some."


@dataclass(frozen=True, eq=False)
class Measured:
    """A meter's answer, with the images behind it: for the site's own eyes, never for a message or a ledger."""

    metered: Metered
    guess: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Measuring:
    """How an update is measured: as `meter` is asked, and what its callers do not see."""

    public: LabelledImages | None = None
    defence: Defence | None = None
    seed: int = 0
    seconds: float | None = None
    kept: Path | None = None
    on_stage: Callable[[str], None] = lambda stage: None
    """Is told what is being done."""
    run: Run = run_isolated
    """How an attack is run."""


def meter(
    record: UpdateRecord,
    own: PrivateBatch,
    *,
    public: LabelledImages | None = None,
    defence: Defence | None = None,
    seed: int = 0,
    seconds: float | None = None,
    kept: Path | None = None,
) -> Metered:
    """Measure what an honest-but-curious server could read of one update: images, and how many of each class.

    Attacks are tried on simulated clients of public images, which train and are defended as this one. The best of them
    by that, and no other, is played on the update; its guess is compared with your own images and with other patients'.

    Args:
        record: the update; see `UpdateRecord.between`.
        own: the images behind it. They stay in this process.
        public: public images of the same kind and classes, of other patients: what an attacker would learn from.
            Without them little can be judged.
        defence: what stood between the training and the update, as an attacker knows it; default: nothing.
        seed: of who is simulated, and of all that attacks draw.
        seconds: by the clock; what does not fit is left out and said. Default: about a minute and a half.
        kept: a folder for what is learned, which the next update of the same global model and training finds there.

    Returns:
        A reading for "reconstruction" (RDLV beyond what the same guess gains on other patients) and one for
        "label-counts" (how much nearer than the public mix), each with a sentence. 0 is nothing beyond chance by an
        attack that works on simulated clients; None is not judged, and the sentence says why.

    Raises:
        BadInput: images, labels or counts do not fit the record.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> import fluoroscope as fl
        >>> model = nn.Sequential(nn.Flatten(), nn.Linear(256, 2))
        >>> before = {name: value.clone() for name, value in model.state_dict().items()}
        >>> after = {name: value + 0.1 for name, value in before.items()}
        >>> training = fl.LocalTraining(fl.Sgd(0.1), images=1, batch_size=1)
        >>> record = fl.UpdateRecord.between(model, before, after, training, input_shape=(1, 16, 16))
        >>> own = fl.PrivateBatch(torch.rand(1, 1, 16, 16), torch.tensor([1]), ("anna",))
        >>> few = fl.LabelledImages(torch.rand(2, 1, 16, 16), torch.tensor([0, 1]))
        >>> [reading.value for reading in fl.meter(record, own, public=few).readings]
        [None, None]
    """
    return measure(record, own, Measuring(public, defence, seed, seconds, kept)).metered


def measure(record: UpdateRecord, own: PrivateBatch, how: Measuring) -> Measured:
    """The same, with the guess."""
    check_own(record, own)
    time_left = TimeLeft(USUAL if how.seconds is None else how.seconds)
    behind = NO_DEFENCE if how.defence is None else chain(how.defence)
    if reason := unreadable(record):
        return Measured(not_judged(f"Not judged: {reason}."))
    if how.public is None:
        how.on_stage("closed forms")
        guessed = read_without_public(record, own, behind, how.seed, time_left, how.run)
        counts = Reading("label-counts", None, _COUNTS_NEED_PUBLIC)
        return _told(guessed, counts, (), time_left)
    public = without_own(how.public, own)
    try:
        how.on_stage("simulating clients")
        ground = simulated(record, public, behind, how.seed, time_left)
    except Unsupported as problem:
        return Measured(not_judged(f"Not judged: {problem}"))
    how.on_stage("label counts")
    counts, left_out = read_label_counts(ground, own, how.seed, time_left)
    how.on_stage("reconstruction")
    with folder_for(how.kept, ground.seen, public, how.seed) as folder:
        trials = play(ground, folder, how.seed, time_left, how.run)
    guessed, odd = read_reconstruction(ground, trials, own, how.seed), ground.oddity()
    guessed = replace(guessed, reading=_doubted(guessed.reading, odd or ground.smaller()))
    return _told(guessed, _doubted(counts, odd), left_out, time_left)


def _doubted(reading: Reading, odd: str) -> Reading:
    """Nothing was found, perhaps because the simulated clients are not like this one: then nothing was judged."""
    return replace(reading, value=None, sentence=f"Not judged: {odd}.") if odd and reading.value == 0 else reading


def _told(guessed: Guessed, counts: Reading, left_out: tuple[str, ...], time_left: TimeLeft) -> Measured:
    metered = Metered((guessed.reading, counts), (*guessed.left_out, *left_out), time_left.spent)
    return Measured(metered, guessed.images)


def check_own(record: UpdateRecord, own: PrivateBatch) -> None:
    """Refuse images that cannot be those behind the update."""
    shape, network = tuple(own.images.shape[1:]), record.network
    if shape != network.input_shape:
        raise BadInput(f"your images have the shape {shape}, and {network.name} takes {network.input_shape}.")
    if len(own) != record.training.images:
        raise BadInput(f"{len(own)} images are given for an update of {record.training.images}.")
    if own.labels.ndim == 1 and int(own.labels.max()) >= network.outputs:
        raise BadInput(
            f"your images have the label {int(own.labels.max())}, and {network.name} tells {network.outputs} classes "
            "from 0 on."
        )


def unreadable(record: UpdateRecord) -> str:
    """Why nothing could be measured on this update; empty where it can."""
    if min(record.network.input_shape[1:]) < SMALLEST:
        return f"likeness is measured on images of at least {SMALLEST} pixels a side"
    arrays = {**record.state_before, **record.arrays, **record.buffers_before, **(record.buffers_after or {})}
    if not all(value.isfinite().all() for value in arrays.values()):
        return "the two models hold numbers that are not finite"
    if not record.state_after and not record.buffers_after:
        return "nothing was sent"
    return ""
