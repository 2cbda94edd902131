"""A network whose losses can be written down: the logits are the pixels."""

import torch
from torch import nn

from fluoroscope.types import LabelledImages, Network

NETWORK = Network.of(nn.Sequential(nn.Flatten(), nn.Linear(4, 2, bias=False)), (1, 2, 2))


def state(gain=1.0):
    """Class 0 looks at the first pixel, class 1 at the second."""
    return {"1.weight": gain * torch.tensor([[1.0, 0, 0, 0], [0, 1.0, 0, 0]])}


def records(pixels, labels):
    """Of the first two pixels of each."""
    images = torch.zeros(len(pixels), 1, 2, 2)
    images[:, 0, 0] = torch.tensor(pixels)
    return LabelledImages(images, torch.tensor(labels))
