"""A network whose losses can be written down: the logits are the pixels."""

import torch
from torch import nn

from fluoroscope.threat_models import THREATS, observe, observe_round
from fluoroscope.types import LabelledImages, LocalTraining, Network, RoundView, Sgd, UpdateRecord

NETWORK = Network.of(nn.Sequential(nn.Flatten(), nn.Linear(4, 2, bias=False)), (1, 2, 2))
SERVER, CLIENT = THREATS.get("curious-server"), THREATS.get("curious-client")
TRAINING = LocalTraining(Sgd(0.1), images=2, batch_size=1)


def state(gain=1.0):
    """Class 0 looks at the first pixel, class 1 at the second."""
    return {"1.weight": gain * torch.tensor([[1.0, 0, 0, 0], [0, 1.0, 0, 0]])}


def records(pixels, labels):
    """Of the first two pixels of each."""
    images = torch.zeros(len(pixels), 1, 2, 2)
    images[:, 0, 0] = torch.tensor(pixels)
    return LabelledImages(images, torch.tensor(labels))


def sent(gain, training=TRAINING, knowledge=SERVER, before=0.0):
    """What a server sees of a client that made its model this one."""
    return observe(UpdateRecord.between(NETWORK, state(before), state(gain), training), knowledge)


def told(loss, gain=1.0, number=1, training=TRAINING, knowledge=CLIENT):
    """What a participant sees of a round that ended with this model."""
    return observe_round(RoundView(number, NETWORK, state(gain), {"loss": loss}), training, knowledge)


def rng():
    return torch.Generator().manual_seed(0)
