"""Several epochs show every image several times, at weights that have moved: its first view is the one to decode.

The row space of a round holds each epoch's features of each image. They differ between epochs by what training did to
the network, which public images show: the attacker has the weights before and after the round, and what lies between
the two means of public features is the way that every view goes.
"""

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import normalize

from fluoroscope.attacks.common.setup import Setup
from fluoroscope.attacks.learned.public_features import public_features


def first_views(maps: Tensor, images: int, drift: Tensor) -> Tensor:
    """Of (views, channels, h, w) maps of norm 1, the earliest one of each image: at most `images` of them.

    Args:
        maps: all that was found of all epochs.
        images: how many images the client has.
        drift: (channels x h x w,): the way that features go while the client trains, as `drift` tells it.
    """
    if len(maps) <= 1:
        return maps
    from scipy.cluster.hierarchy import fcluster, linkage  # slow, and every attack imports this file

    flat = normalize(maps.flatten(1).double())
    far = (1 - flat @ flat.T).clamp_min(0)
    above = torch.triu_indices(len(flat), len(flat), offset=1)
    owners = torch.from_numpy(
        fcluster(linkage(far[above[0], above[1]].numpy(), "average"), images, criterion="maxclust")
    )
    gone = flat @ drift.double()
    first = [int(torch.where(owners == owner, gone, torch.inf).argmin()) for owner in torch.unique(owners)]
    return maps[first]


def drift(setup: Setup, images: Tensor, layer: str, rng: torch.Generator) -> Tensor:
    """From the mean of public features of norm 1 at the global weights to that at the client's last ones."""
    moved = {name: value + setup.update.get(name, 0) for name, value in setup.state.items()}
    begun, ended = (
        normalize(public_features(at, images, layer, rng).double()).mean(0)
        for at in (setup, replace(setup, state=moved))
    )
    return ended - begun
