"""Who holds which image: what files say of it, several sources joined, and the split that keeps to it."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch

from fluoroscope.data import Request, Site, load, load_sites
from fluoroscope.data.dicom import load_dicom
from fluoroscope.data.image_folder import load_folder
from fluoroscope.data.partition import SitesSplit
from fluoroscope.data.site_names import client_names, safe_name
from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.types import ImageSet, Partition, PrivateBatch

from . import test_dicom
from .pictures import class_folders, pixels, save, write_table

REQUEST = Request()
HEADER = "file,label,patient,licence,site"


class TestTable:
    ROWS = (
        "normal/0.png,normal,a,,north", "normal/1.png,normal,b,,south", "normal/2.png,normal,c,,north",
        "sick/0.png,sick,d,,south", "sick/1.png,sick,e,,south", "sick/2.png,sick,f,,north",
    )  # fmt: skip

    def test_a_column_says_who_holds_what(self, tmp_path):
        write_table(class_folders(tmp_path), list(self.ROWS), HEADER)
        assert load_folder(tmp_path, REQUEST).sites == ("north", "south", "north", "south", "south", "north")

    def test_without_one_nobody_does(self, tmp_path):
        assert load_folder(class_folders(tmp_path), REQUEST).sites == ()

    def test_one_gap_and_it_is_not_known(self, tmp_path):
        write_table(class_folders(tmp_path), [*self.ROWS[:-1], "sick/2.png,sick,f,, "], HEADER)
        assert load_folder(tmp_path, REQUEST).sites == ()

    def test_samples_and_skipped_files_keep_it_aligned(self, tmp_path):
        write_table(class_folders(tmp_path), list(self.ROWS), HEADER)
        (tmp_path / "normal" / "0.png").write_bytes(b"no picture")
        for request in (Request(skip_bad=True), Request(skip_bad=True, images=3, seed=4)):
            loaded = load_folder(tmp_path, request)
            truth = {row.split(",")[2]: row.split(",")[4] for row in self.ROWS}
            assert loaded.sites == tuple(truth[patient] for patient in loaded.batch.patients)
            assert "a" not in loaded.batch.patients


class TestDicom:
    def files(self, root: Path, *institutions: str | None) -> ImageSet:
        for i, institution in enumerate(institutions):
            tags = {} if institution is None else {"InstitutionName": institution}
            test_dicom.save(root / "ab"[i % 2] / f"{i}.dcm", test_dicom.dataset(pixels(i, 8, 8), **tags))
        return load_dicom(root, REQUEST)

    def test_the_institution_is_the_site(self, tmp_path):
        assert self.files(tmp_path, " St Mary ", "Charité", "St Mary").sites == ("St Mary", "St Mary", "Charité")

    @pytest.mark.parametrize("unknown", [None, "", "  "])
    def test_one_unknown_and_it_is_not_known(self, tmp_path, unknown):
        assert self.files(tmp_path, "St Mary", unknown).sites == ()

    def test_a_table_knows_better(self, tmp_path):
        write_table(tmp_path, ["a/0.dcm,a,north", "b/1.dcm,b,south"], "file,label,site")
        assert self.files(tmp_path, "St Mary", "St Mary").sites == ("north", "south")


def test_a_set_has_a_site_for_each_image_or_none():
    batch = PrivateBatch(torch.zeros(2, 1, 4, 4), torch.zeros(2, dtype=torch.int64), ("a", "b"))
    with pytest.raises(BadInput, match="2 images need 2 sites or none, not 1"):
        ImageSet("x", batch, ("c",), "CC0", sites=("north",))


class TestSeveralSources:
    def folders(self, root: Path, **classes: tuple[str, ...]) -> list[Site]:
        return [Site(name, f"folder:{class_folders(root / name, classes=held)}") for name, held in classes.items()]

    def test_classes_are_joined_by_name(self, tmp_path):
        sites = self.folders(tmp_path, north=("sick", "well"), south=("adult", "sick"))
        joined = load_sites("both", sites, REQUEST)
        assert joined.name == "both"
        assert joined.classes == ("adult", "sick", "well")
        assert joined.batch.labels.tolist() == [1, 1, 1, 2, 2, 2, 0, 0, 0, 1, 1, 1]
        assert joined.sites == ("north",) * 6 + ("south",) * 6
        alone = [load(site.source).batch.images for site in sites]
        assert torch.equal(joined.batch.images, torch.cat(alone))

    def test_patients_are_local_to_their_site(self, tmp_path):
        sites = self.folders(tmp_path, north=("a",), south=("a",))
        for name in ("north", "south"):
            write_table(tmp_path / name, [f"a/{i}.png,a,0001,CC{name}" for i in range(3)])
        joined = load_sites("both", sites, REQUEST)
        assert joined.batch.patients == ("north/0001",) * 3 + ("south/0001",) * 3
        assert joined.licence == "CCnorth; CCsouth"

    def test_the_request_holds_for_each(self, tmp_path):
        sites = self.folders(tmp_path, north=("a", "b"), south=("a", "b"))
        (tmp_path / "south" / "a" / "bad.png").write_bytes(b"no picture")
        joined = load_sites("both", sites, Request(size=16, channels=3, images=4, skip_bad=True))
        assert joined.batch.images.shape[1:] == (3, 16, 16)
        assert joined.sites == ("north",) * 4 + ("south",) * (len(joined) - 4)
        assert 3 <= len(joined) - 4 <= 4, "at most four of each, and perhaps the bad one was among them"

    def test_what_was_skipped_anywhere_is_listed(self, tmp_path):
        sites = self.folders(tmp_path, north=("a", "b"), south=("a", "b"))
        for name in ("north", "south"):
            (tmp_path / name / "a" / "bad.png").write_bytes(b"no picture")
        assert len(load_sites("both", sites, Request(skip_bad=True)).skipped) == 2

    def test_phantoms_differ_between_sites_and_stay_synthetic(self, tmp_path):
        request = Request(size=28, images=6)
        joined = load_sites("two", [Site("a", "phantom/chest"), Site("b", "phantom/chest")], request)
        assert joined.synthetic
        assert not torch.equal(joined.batch.images[:6], joined.batch.images[6:])
        mixed = load_sites("two", [Site("a", "phantom/chest"), *self.folders(tmp_path, b=("x",))], request)
        assert not mixed.synthetic

    def test_channels_must_agree(self, tmp_path):
        sites = self.folders(tmp_path, north=("a",), south=("a",))
        save(tmp_path / "south" / "a" / "c.png", pixels(1, 8, 8, 3))
        told = (
            r"differ in channels: 1 in 'north', 3 in 'south'. Set channels in \[data\] \(--channels\): 1 \(grey\) or 3"
        )
        with pytest.raises(BadInput, match=told):
            load_sites("both", sites, REQUEST)
        assert load_sites("both", sites, Request(channels=1)).channels == 1

    def test_sizes_must_agree(self, tmp_path):
        class_folders(tmp_path / "south", size=16, classes=("a",))
        sites = [*self.folders(tmp_path, north=("a",)), Site("south", str(tmp_path / "south"))]
        with pytest.raises(BadInput, match=r"differ in size: 8 in 'north', 16 in 'south'. Set size in \[data\]"):
            load_sites("both", sites, REQUEST)

    def test_a_class_in_two_spellings(self, tmp_path):
        sites = self.folders(tmp_path, north=("no-finding", "x"), south=("No finding", "x"))
        with pytest.raises(BadInput, match="written in two ways: 'no-finding' in 'north', 'No finding' in 'south'"):
            load_sites("both", sites, REQUEST)

    def test_the_same_images_in_two_hospitals(self, tmp_path):
        (north,) = self.folders(tmp_path, north=("a",))
        with pytest.raises(Misconfigured, match=r"'north' and 'south' have the same source .* give each its own"):
            load_sites("both", [north, Site("south", north.source)], REQUEST)
        with pytest.raises(Misconfigured, match="two sites are called 'north'"):
            load_sites("both", [north, Site("north", "phantom/chest")], REQUEST)


class TestNames:
    def test_a_name_becomes_a_file_s(self):
        assert safe_name("St. Mary's / Ward 3") == "St.-Mary-s-Ward-3"
        assert safe_name("Köln") == "Köln"
        assert safe_name("../etc/passwd") == "etc-passwd"
        assert len(safe_name("x" * 300)) == 64

    @pytest.mark.parametrize("name", ["global", "Server", "test"])
    def test_names_that_the_records_use(self, name):
        with pytest.raises(Misconfigured, match=f"cannot be called '{name}'"):
            safe_name(name)

    def test_nothing_left(self):
        with pytest.raises(Misconfigured, match=r"site '\.\./' has no letter or digit"):
            safe_name("../")

    @pytest.mark.parametrize(("one", "other"), [("St Mary", "St-Mary"), ("North", "north")])
    def test_clashes(self, one, other):
        with pytest.raises(Misconfigured, match=f"sites '{one}' and '{other}' would both be the client"):
            client_names([one, other])

    def test_the_order_is_that_of_the_images(self):
        assert client_names(["b", "a a", "b"]) == {"b": "b", "a a": "a-a"}


def held_by(sites: dict[str, list[int]], largest: int = 3) -> ImageSet:
    """So many images of each class in each site, in random order; patients are numbered from 0 in every site."""
    rng = np.random.default_rng(0)
    rows: list[tuple[str, int, str]] = []
    for site, counts in sites.items():
        labels = rng.permutation(np.repeat(np.arange(len(counts)), counts)).tolist()
        rows += [(site, label, f"{i // largest:04d}") for i, label in enumerate(labels)]
    rows = [rows[i] for i in rng.permutation(len(rows))]
    batch = PrivateBatch(
        torch.zeros(len(rows), 1, 1, 1), torch.tensor([label for _, label, _ in rows]), tuple(p for _, _, p in rows)
    )
    classes = tuple(f"class {c}" for c in range(len(next(iter(sites.values())))))
    return ImageSet("made", batch, classes, "CC0", sites=tuple(site for site, _, _ in rows))


class TestSplit:
    IMAGES = held_by({"north": [60, 40], "south wing": [10, 30], "east": [0, 20]})

    def sides(self, partition: Partition) -> dict[str, tuple[int, ...]]:
        named = {f"{c.name} {side}": getattr(c, side) for c in partition.clients for side in ("train", "validation")}
        return {**named, "test": partition.test, "auxiliary": partition.auxiliary}

    def test_every_client_holds_its_own_site_s_images(self):
        partition = SitesSplit(auxiliary=0.1).divide(self.IMAGES, 0)
        assert {client.name for client in partition.clients} == {"north", "south-wing", "east"}
        for client in partition.clients:
            owners = {self.IMAGES.sites[i] for i in (*client.train, *client.validation)}
            assert owners == {client.name.replace("-", " ")}
        assert sorted(i for side in self.sides(partition).values() for i in side) == list(range(160))

    def test_every_site_gives_its_part(self):
        images = held_by({"north": [60, 40], "south": [20, 30], "east": [0, 20]}, largest=1)
        partition = SitesSplit(validation=0.25, test=0.2, auxiliary=0.2).divide(images, 0)

        def by_site(indices: tuple[int, ...]) -> dict[str, int]:
            return {site: sum(images.sites[i] == site for i in indices) for site in ("north", "south", "east")}

        assert by_site(partition.test) == by_site(partition.auxiliary) == {"north": 20, "south": 10, "east": 4}
        sizes = {client.name: (len(client.train), len(client.validation)) for client in partition.clients}
        # 60 % of 100, 50 and 20; a quarter of each is for validation. Whole images of each class: within one.
        for site, expected in {"north": (45, 15), "south": (22.5, 7.5), "east": (9, 3)}.items():
            assert sizes[site] == pytest.approx(expected, abs=1)

    def test_no_patient_of_a_site_on_two_sides(self):
        for seed in range(5):
            sides = self.sides(SitesSplit(auxiliary=0.2).divide(self.IMAGES, seed)).values()
            owners = [{(self.IMAGES.sites[i], self.IMAGES.batch.patients[i]) for i in side} for side in sides]
            assert not any(one & other for one, other in combinations(owners, 2))

    def test_a_site_that_joins_changes_nobody_else_s_split(self):
        alone = held_by({"north": [60, 40]})
        more = ImageSet(
            "more",
            PrivateBatch(torch.zeros(110, 1, 1, 1), torch.cat([alone.batch.labels, torch.zeros(10, dtype=torch.int64)]),
                         (*alone.batch.patients, *map(str, range(10)))),
            alone.classes, "CC0", sites=(*alone.sites, *["new"] * 10),
        )  # fmt: skip
        before, after = (SitesSplit().divide(images, 3).clients[0] for images in (alone, more))
        assert before == after

    def test_batch_sizes(self):
        partition = SitesSplit(batch_sizes={"south-wing": 4}).divide(self.IMAGES, 0)
        assert {c.name: c.batch_size for c in partition.clients} == {"north": None, "south-wing": 4, "east": None}
        with pytest.raises(Misconfigured, match=r"batch_sizes names \['west'\]; the sites are"):
            SitesSplit(batch_sizes={"west": 4}).divide(self.IMAGES, 0)
        with pytest.raises(Misconfigured, match=r"batch_sizes must be at least 1, not \{'north': 0\}"):
            SitesSplit(batch_sizes={"north": 0})

    def test_a_set_that_does_not_say_who_holds_what(self, tmp_path):
        images = load_folder(class_folders(tmp_path), REQUEST)
        told = r"does not say which site holds which image: write one \[\[data.site\]\] table per site"
        with pytest.raises(Misconfigured, match=told):
            SitesSplit().divide(images, 0)

    def test_clashing_names(self):
        with pytest.raises(Misconfigured, match="rename one of them"):
            SitesSplit().divide(held_by({"St Mary": [9], "St-Mary": [9]}), 0)

    def test_a_site_with_too_few_images(self):
        with pytest.raises(Misconfigured, match=r"site 'small' gets no image to train on \(it has 1\); lower test"):
            SitesSplit(test=0.8).divide(held_by({"large": [40], "small": [1]}), 0)

    def test_fractions(self):
        with pytest.raises(Misconfigured, match="test must be a fraction from 0 to below 1, not 20"):
            SitesSplit(test=20)
