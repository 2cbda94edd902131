"""What every split must keep, and what each paper's table says."""

import json
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch

from fluoroscope.data.partition import (
    PARTITIONS,
    CountsSplit,
    DirichletSplit,
    IidSplit,
    P1Split,
    P2Split,
    P3Homogeneous,
    P3Table3,
    P3Table8,
    Partitioner,
    SitesSplit,
    split_table,
)
from fluoroscope.data.partition.apportion import apportion, evenly
from fluoroscope.data.partition.p1 import TABLE_II
from fluoroscope.data.partition.p3 import HELD_OUT, TABLE_2, TABLE_3, TABLE_8
from fluoroscope.errors import Misconfigured
from fluoroscope.types import ImageSet, Partition, PrivateBatch

DEMENTIA = ("mild", "moderate", "non", "very mild")


def image_set(counts: Iterable[int], largest: int = 4, seed: int = 0, classes: tuple[str, ...] = ()) -> ImageSet:
    """Labels in random order, patients of 1 to `largest` images, some of them with images of several classes."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(len(list(counts))), list(counts)))
    patients: list[str] = []
    while len(patients) < len(labels):
        patients += [f"p{len(patients)}"] * int(rng.integers(1, largest + 1))
    n = len(labels)
    batch = PrivateBatch(torch.zeros(n, 1, 1, 1), torch.from_numpy(labels), tuple(patients[:n]))
    return ImageSet("made", batch, classes or tuple(f"class {c}" for c in range(len(list(counts)))), "CC0")


def sides(partition: Partition) -> dict[str, tuple[int, ...]]:
    named = {"test": partition.test, "auxiliary": partition.auxiliary}
    for client in partition.clients:
        named[f"{client.name} train"] = client.train
        named[f"{client.name} validation"] = client.validation
    return named


def by_class(images: ImageSet, indices: Iterable[int]) -> list[int]:
    return torch.bincount(images.batch.labels[list(indices)], minlength=len(images.classes)).tolist()


def patients_of(images: ImageSet, indices: Iterable[int]) -> set[str]:
    return {images.batch.patients[i] for i in indices}


def at_sites(images: ImageSet, *sites: str) -> ImageSet:
    """Every patient at one site."""
    return replace(images, sites=tuple(sites[int(patient[1:]) % len(sites)] for patient in images.batch.patients))


CASES: dict[str, tuple[Partitioner, ImageSet]] = {
    "p1": (P1Split(validation=20, test=100, auxiliary=30), image_set([1400, 1400])),
    "p2": (P2Split(), image_set([300, 500, 40])),
    "p3-homogeneous": (P3Homogeneous(0.1), image_set([130, 20, 420, 300], classes=DEMENTIA)),
    "p3-table-3": (P3Table3(0.1), image_set([130, 20, 420, 300], classes=DEMENTIA)),
    "p3-table-8": (P3Table8(0.1), image_set([150, 20, 420, 300], classes=DEMENTIA)),
    "counts": (CountsSplit(((20, 30), (5, 0)), auxiliary=10), image_set([150, 150])),
    "dirichlet": (DirichletSplit(), image_set([300, 500, 40])),
    "iid": (IidSplit(auxiliary=0.1), image_set([300, 500, 40])),
    "sites": (SitesSplit(auxiliary=0.1), at_sites(image_set([300, 500, 40]), "north", "south", "east")),
}


def test_every_partition_is_tried():
    assert set(CASES) == set(PARTITIONS)
    assert all(type(CASES[name][0]) is PARTITIONS.get(name) for name in PARTITIONS)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", range(3))
class TestEverySplit:
    def test_no_patient_on_two_sides(self, name, seed):
        partitioner, images = CASES[name]
        partition = partitioner.divide(images, seed)
        for (one, a), (other, b) in combinations(sides(partition).items(), 2):
            shared = patients_of(images, a) & patients_of(images, b)
            if name == "p1" and {one.split()[0], other.split()[0]} == {"client-1", "client-9"}:
                continue  # P1 shares these on purpose
            assert not shared, f"{one} and {other} share {shared}"

    def test_no_image_twice(self, name, seed):
        partitioner, images = CASES[name]
        for indices in sides(partitioner.divide(images, seed)).values():
            assert len(set(indices)) == len(indices)

    def test_seeded(self, name, seed):
        partitioner, images = CASES[name]
        partition = partitioner.divide(images, seed)
        assert partition == partitioner.divide(images, seed)
        assert partition != partitioner.divide(images, seed + 100)

    def test_batches_mix_the_classes(self, name, seed):
        partitioner, images = CASES[name]
        largest = max(partitioner.divide(images, seed).clients, key=lambda client: len(client.train))
        assert list(largest.train) != sorted(largest.train)

    def test_the_table_counts_every_image_once(self, name, seed):
        partitioner, images = CASES[name]
        rows = split_table(images, partitioner.divide(images, seed))
        json.dumps(rows)
        assert [row["part"] for row in rows[-3:]] == ["test", "auxiliary", "unused"]
        assert all(sum(row["classes"].values()) == row["images"] for row in rows)
        counted = sum(row["images"] for row in rows if row["part"] != "client-9")
        assert counted == len(images)


class TestP1:
    def test_table_ii(self):
        images = image_set([1700, 1700])
        partition = P1Split(test=200).divide(images, 0)
        for client, number in zip(partition.clients, range(1, 10), strict=True):
            train, batch = TABLE_II[number]
            assert client.name == f"client-{number}"
            assert (len(client.train), client.batch_size, len(client.validation)) == (train, batch, 200)
            assert by_class(images, client.validation) == [100, 100]
            assert by_class(images, client.train) == ([1, 0] if number == 9 else [train // 2, train // 2])
        assert by_class(images, partition.test) == [100, 100]

    def test_client_9_takes_from_client_1(self):
        first, last = P1Split(clients=(1, 9), validation=10).divide(image_set([50, 50]), 0).clients
        assert set(last.train) < set(first.train)
        assert last.validation == first.validation

    def test_client_9_alone_has_its_own(self):
        images = image_set([50, 50])
        partition = P1Split(clients=(2, 9), validation=10).divide(images, 0)
        assert [client.name for client in partition.clients] == ["client-2", "client-9"]
        second, last = partition.clients
        assert by_class(images, last.train) == [1, 0]
        assert by_class(images, last.validation) == [5, 5]
        assert not patients_of(images, (*last.train, *last.validation)) & patients_of(
            images, (*second.train, *second.validation)
        )

    def test_the_rest_is_the_test_set(self):
        images = image_set([100, 100], largest=1)
        partition = P1Split(clients=(1, 2), validation=10, auxiliary=20).divide(images, 0)
        assert len(partition.test) == 200 - 8 - 32 - 20 - 20
        assert len(partition.auxiliary) == 20

    def test_five_classes(self):
        images = image_set([100] * 5)
        partition = P1Split(clients=(1, 9), validation=10).divide(images, 0)
        assert by_class(images, partition.clients[0].train) == [2, 2, 2, 1, 1]
        assert by_class(images, partition.clients[1].train) == [1, 0, 0, 0, 0]

    def test_shortage_says_how_many_and_what_helps(self):
        with pytest.raises(
            Misconfigured,
            match=r"short of images: 101 of class 'class 1' \(asks for 104, there are 3\). Lower validation",
        ):
            P1Split(clients=(1,)).divide(image_set([300, 3], largest=1), 0)

    def test_nothing_left_to_test_on(self):
        with pytest.raises(Misconfigured, match="no patient is left for the test set"):
            P1Split(clients=(1,), validation=2).divide(image_set([5, 5], largest=1), 0)

    @pytest.mark.parametrize("clients", [(), (0,), (1, 10), (2, 2)])
    def test_unknown_clients(self, clients):
        with pytest.raises(Misconfigured, match="different numbers from 1 to 9"):
            P1Split(clients=clients)

    def test_negative_counts(self):
        with pytest.raises(Misconfigured, match="validation must be 0 or more, not -1"):
            P1Split(validation=-1)


class TestCounts:
    def test_every_client_has_its_numbers(self):
        images = image_set([150, 150])
        split = CountsSplit(((20, 30), (1, 0), (3, 40)), validation=6, test=20, auxiliary=10).divide(images, 0)
        found = [np.bincount(images.batch.labels[list(c.train)], minlength=2).tolist() for c in split.clients]
        assert found == [[20, 30], [1, 0], [3, 40]]
        assert [len(c.validation) for c in split.clients] == [6, 6, 6]
        assert (len(split.test), len(split.auxiliary)) == (20, 10)

    def test_what_cannot_be_is_named(self):
        with pytest.raises(Misconfigured, match="2 classes"):
            CountsSplit(((1, 2, 3),)).divide(image_set([150, 150]), 0)
        with pytest.raises(Misconfigured, match="an image at least"):
            CountsSplit(((0, 0),))
        with pytest.raises(Misconfigured, match=r"short of images.*Lower train"):
            CountsSplit(((1000, 1),)).divide(image_set([150, 150]), 0)


class TestP3:
    def test_fit_gives_the_printed_counts_on_the_paper_s_own_data(self):
        images = image_set([896, 64, 3200, 2240], classes=DEMENTIA)
        for split, table in ((P3Homogeneous(fit=True), TABLE_2), (P3Table3(fit=True), TABLE_3)):
            for client, row in zip(split.divide(images, 0).clients, table, strict=True):
                held = images.batch.labels[[*client.train, *client.validation]]
                assert np.bincount(held, minlength=4).tolist() == list(row)

    def test_fit_divides_any_four_classes_and_uses_every_image(self):
        images = image_set([50, 60, 70, 80], classes=("glioma", "meningioma", "none", "pituitary"))
        for split in (P3Homogeneous(fit=True), P3Table3(fit=True), P3Table8(fit=True)):
            found = split.divide(images, 0)
            held = [*found.test, *found.auxiliary, *(i for c in found.clients for i in (*c.train, *c.validation))]
            assert sorted(held) == list(range(260))
        with pytest.raises(Misconfigured, match="fit"):
            P3Homogeneous(scale=0.5, fit=True)

    @pytest.mark.parametrize(
        ("split", "table"), [(P3Homogeneous(), TABLE_2), (P3Table3(), TABLE_3), (P3Table8(), TABLE_8)]
    )
    def test_counts_as_printed(self, split, table):
        images = image_set([1000, 64, 3200, 2240], classes=DEMENTIA, largest=1)
        partition = split.divide(images, 0)
        for client, row in zip(partition.clients, table, strict=True):
            assert by_class(images, (*client.train, *client.validation)) == list(row)
            assert len(client.validation) == pytest.approx(0.2 * sum(row), abs=1)
            assert np.allclose(by_class(images, client.validation), 0.2 * np.array(row), atol=1)
        assert len(partition.test) == len(partition.auxiliary) == 640
        assert by_class(images, (*partition.test, *partition.auxiliary)) == list(HELD_OUT[0])

    def test_the_papers_own_data_is_enough(self):
        images = image_set([724 + 172, 49 + 15, 2566 + 634, 1781 + 459], classes=DEMENTIA, largest=1)
        for split in (P3Homogeneous(), P3Table3(), P3Table8(as_printed=False)):
            assert sum(row["images"] for row in split_table(images, split.divide(images, 0))[:-1]) == 6400
        with pytest.raises(Misconfigured, match=r"100 of class 'mild' .*Lower scale \(now 1\)"):
            P3Table8().divide(images, 0)

    def test_table_totals(self):
        assert [sum(row) for row in TABLE_2] == [1280] * 4
        assert [sum(row) for row in TABLE_3] == [1792, 768, 2048, 512]
        assert [sum(row) for row in TABLE_8] == [1747, 1591, 1882]

    def test_scale_keeps_one_of_each_class(self):
        images = image_set([90] * 4, classes=DEMENTIA)
        for client in P3Table3(scale=0.02).divide(images, 0).clients:
            assert min(by_class(images, client.train)) >= 1

    @pytest.mark.parametrize(
        "names",
        [
            ("MildDemented", "ModerateDemented", "NonDemented", "VeryMildDemented"),
            ("Mild Impairment", "Moderate Impairment", "No Impairment", "Very Mild Impairment"),
        ],
    )
    def test_names_as_published(self, names):
        partition = P3Homogeneous(scale=0.02).divide(image_set([90] * 4, classes=names), 0)
        assert len(partition.clients) == 4

    def test_other_classes_are_refused(self):
        with pytest.raises(Misconfigured, match=r"need 4 classes .*made has 2"):
            P3Homogeneous().divide(image_set([60] * 2), 0)
        with pytest.raises(Misconfigured, match="in this order"):
            P3Homogeneous().divide(image_set([60] * 4), 0)

    def test_scale_out_of_range(self):
        with pytest.raises(Misconfigured, match="scale must be above 0"):
            P3Table8(scale=0)


class TestShares:
    @pytest.mark.parametrize("largest", [1, 6])
    def test_iid_shares_are_equal_and_stratified(self, largest):
        images = image_set([301, 502, 43], largest)
        partition = IidSplit(clients=4).divide(images, 0)
        sizes = [len(client.train) for client in partition.clients]
        assert max(sizes) - min(sizes) <= 1
        for client in partition.clients:
            assert np.allclose(by_class(images, client.train), np.array([301, 502, 43]) * 0.8 / 4 * 0.8, atol=1.01)
        assert np.allclose(by_class(images, partition.test), np.array([301, 502, 43]) * 0.2, atol=1.01)

    def test_every_image_is_used(self):
        images = image_set([301, 502, 43])
        for split in (IidSplit(), DirichletSplit(alpha=0.1), P2Split()):
            assert split_table(images, split.divide(images, 0))[-1]["images"] == 0

    def test_p2(self):
        images = image_set([300, 700], largest=3)
        partition = P2Split().divide(images, 0)
        assert len(partition.clients) == 5
        assert by_class(images, partition.auxiliary) == [30, 70]
        assert by_class(images, partition.test) == [30, 70]

    def test_a_patient_larger_than_any_share_stays_whole(self):
        batch = PrivateBatch(
            torch.zeros(100, 1, 1, 1), torch.tensor([0, 1] * 50), ("big",) * 60 + tuple(f"p{i}" for i in range(40))
        )
        images = ImageSet("made", batch, ("a", "b"), "CC0")
        holding = [s for s in sides(IidSplit().divide(images, 0)).values() if "big" in patients_of(images, s)]
        assert len(holding) == 1

    def test_small_alpha_skews_more(self):
        images = image_set([500, 500], largest=1)

        def skew(alpha: float) -> float:
            shares = [
                np.array(by_class(images, client.train)) / len(client.train)
                for seed in range(5)
                for client in DirichletSplit(alpha=alpha).divide(images, seed).clients
            ]
            return float(np.mean([share.max() for share in shares]))

        assert skew(0.1) > 0.8
        assert skew(100) < 0.6

    def test_the_test_set_is_not_skewed(self):
        images = image_set([500, 500], largest=1)
        assert by_class(images, DirichletSplit(alpha=0.05).divide(images, 0).test) == [100, 100]

    def test_too_many_clients(self):
        with pytest.raises(Misconfigured, match="choose fewer clients"):
            IidSplit(clients=50).divide(image_set([10, 10]), 0)
        with pytest.raises(Misconfigured, match="raise alpha, choose fewer clients"):
            DirichletSplit(clients=30, alpha=0.01).divide(image_set([20, 20]), 0)

    @pytest.mark.parametrize(
        "wrong",
        [{"clients": 0}, {"validation": 1.0}, {"test": -0.1}, {"auxiliary": 2}, {"test": 0.6, "auxiliary": 0.4}],
    )
    def test_settings_out_of_range(self, wrong):
        for kind in (IidSplit, DirichletSplit, P2Split):
            with pytest.raises(Misconfigured):
                kind(**wrong)

    def test_alpha_out_of_range(self):
        with pytest.raises(Misconfigured, match="alpha must be above 0, not 0"):
            DirichletSplit(alpha=0)


class TestExactness:
    @pytest.mark.parametrize("seed", range(20))
    def test_tight_demand_with_large_patients(self, seed):
        """All but a few images are needed, and every patient has several."""
        images = image_set([60, 60], largest=5, seed=seed)
        partition = P1Split(clients=(1, 2), validation=20, test=20).divide(images, seed)
        assert [by_class(images, s) for s in sides(partition).values()] == [
            [10, 10], [0, 0], [4, 4], [10, 10], [16, 16], [10, 10],
        ]  # fmt: skip

    def test_enough_images_but_too_few_patients(self):
        batch = PrivateBatch(torch.zeros(100, 1, 1, 1), torch.tensor([0, 1] * 50), ("anna",) * 100)
        with pytest.raises(Misconfigured, match=r"patient's images \(up to 100\) may not be divided"):
            P1Split(clients=(1,), validation=10).divide(ImageSet("made", batch, ("a", "b"), "CC0"), 0)

    def test_apportion_is_table_2(self):
        """P3 divides 724, 49, 2566 and 1781 images among four equal clients."""
        table = apportion(np.array([724, 49, 2566, 1781]), np.ones((4, 4)))
        assert table.sum(axis=0).tolist() == [724, 49, 2566, 1781]
        assert table.sum(axis=1).tolist() == [1280] * 4
        assert sorted(table.tolist()) == sorted(map(list, TABLE_2)) or np.ptp(table, axis=0).max() == 1

    def test_apportion_gives_nothing_to_no_share(self):
        table = apportion(np.array([7, 7]), np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]))
        assert table.tolist() == [[4, 0], [3, 7], [0, 0]]

    def test_evenly(self):
        assert evenly(8, 5).tolist() == [2, 2, 2, 1, 1]
