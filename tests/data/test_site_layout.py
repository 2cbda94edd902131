"""Folders that look like hospitals are asked about; folders that look like diseases never are."""

import pytest

from fluoroscope.data import Request, load
from fluoroscope.data.dicom import load_dicom
from fluoroscope.data.image_folder import load_folder
from fluoroscope.data.site_layout import looks_like_a_site
from fluoroscope.errors import BadInput, Misconfigured

from . import test_dicom
from .pictures import class_folders, pixels, save, write_table

REQUEST = Request()


@pytest.mark.parametrize(
    "name",
    ["hospital-a", "Hospital B", "HospitalA", "hosp_3", "site1", "Site-02", "siteB", "clinic_north", "center-2",
     "centre", "centre II", "institution", "institution_7", "klinik", "Klinik-Ost", "node-1", "client-3", "silo 4",
     "St-Mary-Hospital", "Hôpital Nord", "Uniklinik Köln"],
)  # fmt: skip
def test_names_of_sites(name):
    assert looks_like_a_site(name)


@pytest.mark.parametrize(
    "name",
    ["normal", "pneumonia", "covid", "COVID-19", "class1", "0", "1", "AMD", "no-finding", "lymph-node", "node-positive",
     "nodule", "center-involved", "centrilobular", "surgical-site-infection", "hospital-acquired", "in-hospital",
     "hospitalised", "clinical", "institutional", "train", "benign", "patient1", "north", "a", "grade 2", "N1", ""],
)  # fmt: skip
def test_names_of_classes(name):
    assert not looks_like_a_site(name)


class TestByName:
    def test_every_folder_is_called_like_a_site(self, tmp_path):
        class_folders(tmp_path, classes=("hospital-a", "hospital-b"))
        with pytest.raises(BadInput) as asked:
            load_folder(tmp_path, REQUEST)
        told = str(asked.value)
        assert "the folders hospital-a, hospital-b look like sites, not like classes" in told
        assert f'[[data.site]]\n    name = "hospital-a"\n    source = "folder:{tmp_path}/hospital-a"' in told
        assert "folders = 'sites' in [data]" in told
        assert "folders = 'classes' in [data]" in told

    def test_many_are_not_all_listed(self, tmp_path):
        class_folders(tmp_path, count=1, classes=tuple(f"site{i}" for i in range(9)))
        with pytest.raises(BadInput, match=r"(?s)site0, site1, site2, \.\.\. look.*and so on: 9 sites") as asked:
            load_folder(tmp_path, REQUEST)
        assert str(asked.value).count("[[data.site]]") == 3

    def test_below_a_published_split_too(self, tmp_path):
        class_folders(tmp_path / "train", classes=("site1", "site2"))
        class_folders(tmp_path / "test", classes=("site1", "site2"))
        with pytest.raises(BadInput, match="site1, site2 look like sites"):
            load_folder(tmp_path, REQUEST)

    def test_one_other_name_is_enough_to_be_classes(self, tmp_path):
        class_folders(tmp_path, classes=("hospital-a", "normal"))
        assert load_folder(tmp_path, REQUEST).classes == ("hospital-a", "normal")

    def test_they_are_classes_if_one_says_so(self, tmp_path):
        class_folders(tmp_path, classes=("site1", "site2"))
        assert load_folder(tmp_path, Request(folders="classes")).classes == ("site1", "site2")

    def test_a_table_has_said_what_they_are(self, tmp_path):
        class_folders(tmp_path, count=1, classes=("site1", "site2"))
        write_table(tmp_path, ["site1/0.png,normal,a,", "site2/0.png,sick,b,"])
        assert load_folder(tmp_path, REQUEST).classes == ("normal", "sick")

    def test_dicom(self, tmp_path):
        for site in ("clinic_north", "clinic_south"):
            test_dicom.save(tmp_path / site / "1.dcm", test_dicom.dataset(pixels(1, 8, 8)))
        with pytest.raises(
            BadInput, match=f"(?s)clinic_north, clinic_south look like sites.*dicom:{tmp_path}/clinic_n"
        ):
            load_dicom(tmp_path, REQUEST)
        assert load_dicom(tmp_path, Request(folders="classes")).classes == ("clinic_north", "clinic_south")


class TestByLayout:
    def test_the_same_folders_of_images_in_each(self, tmp_path):
        class_folders(tmp_path / "aachen")
        class_folders(tmp_path / "bonn")
        with pytest.raises(BadInput, match="aachen, bonn look like sites"):
            load_folder(tmp_path, REQUEST)

    def test_a_table_in_each(self, tmp_path):
        for town in ("aachen", "bonn"):
            save(tmp_path / town / "0.png", pixels(1, 8, 8))
            write_table(tmp_path / town, ["0.png,normal,a,"])
        with pytest.raises(BadInput, match="aachen, bonn look like sites"):
            load_folder(tmp_path, REQUEST)

    @pytest.mark.parametrize(
        "inside",
        [("ward",), ("train", "test"), ("patient1", "patient2"), ("hospital-a", "hospital-b")],
        ids=["one folder", "published splits", "numbered patients", "sites below the classes"],
    )
    def test_what_only_sorts_a_class(self, tmp_path, inside):
        for name in ("normal", "sick"):
            class_folders(tmp_path / name, classes=inside)
        assert load_folder(tmp_path, REQUEST).classes == ("normal", "sick")

    def test_other_folders_in_each(self, tmp_path):
        class_folders(tmp_path / "normal", classes=("2019", "2020"))
        class_folders(tmp_path / "sick", classes=("2020", "2021"))
        assert load_folder(tmp_path, REQUEST).classes == ("normal", "sick")

    def test_an_image_beside_the_folders(self, tmp_path):
        for name in ("normal", "sick"):
            save(class_folders(tmp_path / name, classes=("left", "right")) / "x.png", pixels(1, 8, 8))
        assert load_folder(tmp_path, REQUEST).classes == ("normal", "sick")


class TestFoldersAreSites:
    SITES = Request(folders="sites")

    def test_classes_below_each(self, tmp_path):
        class_folders(tmp_path / "hospital-a", count=2)
        class_folders(tmp_path / "hospital-b", count=1, classes=("sick", "tired"))
        loaded = load_folder(tmp_path, self.SITES)
        assert loaded.name == tmp_path.name
        assert loaded.classes == ("normal", "sick", "tired")
        assert loaded.sites == ("hospital-a",) * 4 + ("hospital-b",) * 2
        assert loaded.batch.labels.tolist() == [0, 0, 1, 1, 1, 2]

    def test_a_table_in_one_of_them(self, tmp_path):
        class_folders(tmp_path / "a", count=1)
        save(tmp_path / "b" / "0.png", pixels(9, 8, 8))
        write_table(tmp_path / "b", ["0.png,normal,anna,CC0"])
        loaded = load_folder(tmp_path, self.SITES)
        assert loaded.batch.patients == ("a/normal/0.png", "a/sick/0.png", "b/anna")
        assert loaded.licence == "CC0; not stated"

    def test_as_a_bare_path(self, tmp_path):
        class_folders(tmp_path / "site1")
        class_folders(tmp_path / "site2")
        assert set(load(str(tmp_path), self.SITES).sites) == {"site1", "site2"}

    def test_dicom(self, tmp_path):
        for site in ("north", "south"):
            test_dicom.class_folders(tmp_path / site)
        loaded = load_dicom(tmp_path, self.SITES)
        assert loaded.sites == ("north",) * 4 + ("south",) * 4
        assert loaded.batch.patients[:3] == ("north/anna", "north/anna", "north/ben")

    def test_an_image_in_no_site(self, tmp_path):
        save(class_folders(tmp_path / "site1") / ".." / "stray.png", pixels(1, 8, 8))
        with pytest.raises(BadInput, match=r"stray.png: lies in no site's folder. Move it into one"):
            load_folder(tmp_path, self.SITES)
        loaded = load_folder(tmp_path, Request(folders="sites", skip_bad=True))
        assert len(loaded) == 6
        assert len(loaded.skipped) == 1

    def test_nothing_that_could_be_a_site(self, tmp_path):
        with pytest.raises(BadInput, match="has no subfolders; make one per site"):
            load_folder(tmp_path, self.SITES)
        with pytest.raises(BadInput, match="is a file; give the folder that holds one subfolder per site"):
            load_folder(save(tmp_path / "a.png", pixels(1, 8, 8)), self.SITES)
        with pytest.raises(Misconfigured, match="phantom/chest has no subfolders that could be sites"):
            load("phantom/chest", Request(size=28, images=4, folders="sites"))
        with pytest.raises(Misconfigured, match="folders must be classes or sites, not 'wards'"):
            Request(folders="wards")

    def test_a_table_above_them_decides(self, tmp_path):
        write_table(class_folders(tmp_path / "site1").parent, ["site1/normal/0.png,normal,a,"])
        with pytest.raises(BadInput, match="add a column 'site' to it, and leave folders out"):
            load_folder(tmp_path, self.SITES)
