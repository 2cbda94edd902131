"""The federation as it is: every site is one client, with its own images."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from fluoroscope.data.partition.allocation import class_counts, spread
from fluoroscope.data.partition.apportion import apportion
from fluoroscope.data.partition.registry import PARTITIONS
from fluoroscope.data.partition.shares import bin_shares, check_fractions
from fluoroscope.data.site_names import client_names
from fluoroscope.errors import Misconfigured
from fluoroscope.rng import numpy_generator
from fluoroscope.types import ClientSplit, ImageSet, Partition, PrivateBatch


@PARTITIONS.register("sites")
@dataclass(frozen=True)
class SitesSplit:
    """One client per site; test and auxiliary set take the same part of every site."""

    validation: float = 0.2
    """Of what each client keeps."""
    test: float = 0.2
    """Of every site's images."""
    auxiliary: float = 0.0
    """Of every site's images."""
    batch_sizes: Mapping[str, int] = field(default_factory=dict)
    """By client, for those that have their own."""

    def __post_init__(self) -> None:
        check_fractions(1, self.validation, self.test, self.auxiliary)
        if wrong := {client: size for client, size in self.batch_sizes.items() if size < 1}:
            raise Misconfigured(f"batch_sizes must be at least 1, not {wrong}.")

    def divide(self, images: ImageSet, seed: int) -> Partition:
        if not images.sites:
            raise Misconfigured(
                f"{images.name} does not say which site holds which image: write one [[data.site]] table per site, "
                "fill the column 'site' of images.csv in every line, or choose another partition, such as iid."
            )
        names = client_names(images.sites)
        if unknown := sorted(set(self.batch_sizes) - set(names.values())):
            raise Misconfigured(f"batch_sizes names {unknown}; the sites are {list(names.values())}.")
        shares = bin_shares(np.ones((1, len(images.classes))), self.validation, self.test, self.auxiliary)
        clients: list[ClientSplit] = []
        test: list[int] = []
        auxiliary: list[int] = []
        for site, name in names.items():
            # Site by site, so a patient's id counts inside its site only: hospitals number their own patients. And from
            # a generator of its own, so a hospital that joins leaves the others' splits as they are.
            held = [i for i, owner in enumerate(images.sites) if owner == site]
            part = _without_pixels(images, held)
            rng = numpy_generator(seed, "partition", "sites", site)
            bins = spread(part, apportion(class_counts(part), shares), rng).bins
            train, validation, tested, public = (tuple(held[i] for i in each) for each in bins)
            if not train:
                raise Misconfigured(
                    f"{images.name}: site {site!r} gets no image to train on (it has {len(held)}); lower test, "
                    "validation or auxiliary, or give it more images."
                )
            clients.append(ClientSplit(name, train, validation, self.batch_sizes.get(name)))
            test += tested
            auxiliary += public
        if self.test and not test:
            raise Misconfigured(f"{images.name}: the test set is empty; raise its fraction or load more images.")
        return Partition(tuple(clients), tuple(test), tuple(auxiliary))


def _without_pixels(images: ImageSet, held: Sequence[int]) -> ImageSet:
    """Labels and patients are all that a split looks at; large sets do not fit into memory twice."""
    patients = tuple(images.batch.patients[i] for i in held)
    batch = PrivateBatch(torch.zeros(len(held), 1, 1, 1), images.batch.labels[list(held)], patients)
    return replace(images, batch=batch, sites=())
