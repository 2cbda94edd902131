"""Several studies: one that fails stops no other, and finished cells are not run again."""

from dataclasses import replace

import pytest

from fluoroscope.errors import BadInput, Misconfigured, Unsupported
from fluoroscope.studies import STUDIES
from fluoroscope.studies.every import cheapest_first, run_every
from fluoroscope.studies.given_sources import known_names, sources
from tests.studies.conftest import RAN, Counting, draw


def test_a_study_that_fails_stops_no_other(study, tmp_path, monkeypatch):
    broken = replace(study, name="t/broken", draw=lambda title, rows: 1 / 0)
    told = []
    ended = run_every(
        [broken, study], "small", 0, None, tmp_path, lambda done, cells, what: told.append((done, cells, what))
    )
    assert [(each.study, each.failed) for each in ended] == [
        ("t/broken", "ZeroDivisionError: division by zero"),
        ("t/counting", None),
    ]
    assert RAN == [1, 2, 3], "both have the same cells, and none was run twice"
    assert told[-1] == (6.0, 6, "t/counting: phantom/chest, 3")
    assert (tmp_path / "t/counting/findings.json").exists()


def test_a_cell_without_a_result_is_counted(study, tmp_path, monkeypatch):
    usual = Counting.run

    def run(self, bench):
        if self.number == 2:
            raise Unsupported("two are too many.")
        return usual(self, bench)

    monkeypatch.setattr(Counting, "run", run)
    drawn = replace(study, draw=lambda title, rows: draw(title, [row for row in rows if not row.failed]))
    (ended,) = run_every([drawn], "small", 0, None, tmp_path)
    assert (ended.failed, ended.left_out) == (None, 1)


def test_the_cheapest_come_first():
    found = cheapest_first("small")
    assert [s.name for s in sorted(found, key=lambda s: s.name)] == sorted(STUDIES)
    counts = [len(s.grid("small", None)) for s in found]
    assert counts == sorted(counts)


def test_sources_by_name_and_for_all(tmp_path):
    assert {"X-ray", "CIFAR", "MNIST", "Omniglot", "phantom/chest", "phantom/brain"} <= set(known_names())
    assert "" not in known_names()
    assert sources([]) is None
    assert sources(["folder:a=b"]) == "folder:a=b", "a path may have one"
    file = tmp_path / "sets.toml"
    file.write_text('CIFAR = "folder:c"\n"phantom/chest" = "folder:x"\n')
    assert sources(["CIFAR=folder:d"], file) == {"CIFAR": "folder:d", "phantom/chest": "folder:x"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CIFR = 'folder:c'", "'CIFR' is no data set"),
        ("CIFAR = 3", "'CIFAR' is no data set"),
        ("CIFAR =", "is no TOML"),
    ],
)
def test_a_wrong_file_of_sets_is_named(tmp_path, text, message):
    file = tmp_path / "sets.toml"
    file.write_text(text)
    with pytest.raises((BadInput, Misconfigured), match=message):
        sources([], file)


def test_one_source_for_all_and_another_is_refused():
    with pytest.raises(Misconfigured, match="name the data set of each"):
        sources(["folder:a", "CIFAR=folder:b"])
