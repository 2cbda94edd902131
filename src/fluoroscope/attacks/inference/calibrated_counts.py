"""Counts by calibration: the class mix that a client's model predicts as often as it occurs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from fluoroscope.attacks.common.setup import SIMULATION, Setup
from fluoroscope.attacks.inference.label_counts import LABEL_COUNT_ATTACKS, by_class, whole_counts
from fluoroscope.attacks.inference.predicted import predicted_in_training
from fluoroscope.attacks.inference.registry import Seen
from fluoroscope.attacks.inference.seen_model import SeenModel
from fluoroscope.errors import Misconfigured, Unsupported
from fluoroscope.types import Capability, CrossEntropy, LabelledImages

RESAMPLES = 400
LEVEL = 0.95


@dataclass(frozen=True)
class Mix:
    """Shares of the classes, (classes,), and the ends between which each lies with 95 %, as the attacker has it."""

    shares: Tensor
    low: Tensor
    high: Tensor


@dataclass(frozen=True)
class CalibratedCounts:
    """No simulation, any number of steps, epochs and rounds; the more rounds are seen, the better.

    Where cross-entropy is least over the bias of the last layer, mean_i p_i = mean_i y_i: every class is predicted as
    often as it occurs. With P_c the model's mean prediction on images of class c, which public images tell, the shares
    s of the client are those with P^T s = s (a prior from predictions: Saerens et al. 2002; Lipton et al. 2018).
    Training never gets there, and the last batches of a round pull a model to and fro; over rounds that is averaged
    out.
    Predictions are taken as in training, where the loss is least, and as in use.
    """

    needs: ClassVar[frozenset[Capability]] = SIMULATION | {Capability.UPDATE, Capability.PUBLIC_IMAGES}

    def run(self, observations: Seen, rng: Generator) -> Tensor:
        """A row per observation, each by itself: a single round says little. `over_rounds` takes them together."""
        rows = []
        for seen in observations:
            setup, predictions = self._predictions([seen], rng)
            shares = stationary(by_label(predictions, *_public(setup)))
            rows.append(whole_counts(shares, setup.training.images))
        return torch.stack(rows)

    def over_rounds(self, observations: Seen, rng: Generator) -> Mix:
        """One client's mix from all its rounds; the interval is by resampling rounds, and public images by class."""
        setup, predictions = self._predictions(observations, rng)
        public, places = _public(setup)
        drawn = []
        for _ in range(RESAMPLES):
            rounds = torch.randint(len(predictions), (len(predictions),), generator=rng)
            images = [own[torch.randint(len(own), (len(own),), generator=rng)] for own in places]
            drawn.append(stationary(by_label(predictions[rounds], public, images)))
        ends = torch.quantile(torch.stack(drawn), torch.tensor([(1 - LEVEL) / 2, (1 + LEVEL) / 2]).double(), dim=0)
        return Mix(stationary(by_label(predictions, public, places)), ends[0], ends[1])

    def _predictions(self, observations: Seen, rng: Generator) -> tuple[Setup, Tensor]:
        """(rounds, public images, classes), the mean of both ways to run the model."""
        if not observations:
            raise Misconfigured("calibrated-counts was given no observation: give it one per client or per round.")
        found = []
        for seen in observations:
            setup = Setup.of(seen, self.needs, "calibrated-counts")
            if not isinstance(setup.training.loss, CrossEntropy):
                raise Unsupported(
                    f"calibrated-counts reads what cross-entropy leads to, and this client has "
                    f"{type(setup.training.loss).__name__}. Choose the attack 'learned-counts', which simulates rounds."
                )
            public, _ = _public(setup)
            model = SeenModel.of(seen)
            trained = predicted_in_training(setup, model.state, public, rng).double()
            found.append((trained + model.logits(public).softmax(1)) / 2)
        return setup, torch.stack(found)


def _public(setup: Setup) -> tuple[LabelledImages, list[Tensor]]:
    public = setup.observation.public_images
    assert public is not None  # in `needs`
    return public, by_class("calibrated-counts", public, setup.outputs)


def by_label(predictions: Tensor, public: LabelledImages, places: Sequence[Tensor]) -> Tensor:
    """(classes, classes): the mean prediction on the images at these places of each class."""
    mean = predictions.mean(0)
    return torch.stack([mean[own].mean(0) for own in places])


def stationary(chances: Tensor) -> Tensor:
    """(classes,): the shares s with chances^T s = s and sum 1, of rows that sum to 1; by least squares.

    Example:
        >>> import torch
        >>> stationary(torch.tensor([[0.9, 0.1], [0.3, 0.7]], dtype=torch.float64)).tolist()
        [0.75, 0.25]
    """
    classes = len(chances)
    system = torch.cat(
        [chances.T - torch.eye(classes, dtype=chances.dtype), torch.ones(1, classes, dtype=chances.dtype)]
    )
    wanted = torch.zeros(classes + 1, 1, dtype=chances.dtype)
    wanted[-1] = 1
    shares: Tensor = torch.linalg.lstsq(system, wanted).solution[:, 0].clamp_min(0)
    return shares / shares.sum()


LABEL_COUNT_ATTACKS.add("calibrated-counts", CalibratedCounts())
