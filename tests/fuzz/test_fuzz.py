"""The short form of `make fuzz`: every defect so far, and some inputs of the cheapest readers."""

import os
import sys
from itertools import count

import pytest

from tests.fuzz import fuzzing, materials, preload
from tests.fuzz.corpus import CORPUS, SLOW
from tests.fuzz.targets import TARGETS

BY_NAME = {target.name: target for target in TARGETS}
NUMBERS = count(1)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Files of every kind that is read, and all modules that read them."""
    preload.everything()
    folder = tmp_path_factory.mktemp("good")
    materials.make(folder)
    return folder


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in CORPUS])
def test_no_defect_comes_back(name, good, tmp_path):
    target, spoil, codes = CORPUS[name]
    found = fuzzing.tried(BY_NAME[target], next(NUMBERS), {}, good, tmp_path, spoil)
    assert not found.wrong, found.ended.err[-2000:]
    assert found.ended.code in codes, found.ended.err[-2000:]


def test_mutated_inputs_get_a_sentence(good, tmp_path):
    cheap = [target for target in TARGETS if not target.slow]
    bad = [each for each in fuzzing.fuzz(7, 120, good, tmp_path, targets=cheap, together=4) if each.wrong]
    assert not bad, [(each.number, each.target.name, each.wrong, each.ended.err[-500:]) for each in bad]


def test_what_is_wrong_is_seen(good, tmp_path):
    """The oracle: readers that abort, hang, take all memory, or say too much or too little are told apart."""

    def outcome(read, **more):
        return fuzzing.tried(fuzzing.Target("t", "npz", (), read, **more), next(NUMBERS), {}, good, tmp_path).wrong

    def leave(code, *words):
        def read(here):
            print(*words, file=sys.stderr)
            raise SystemExit(code)

        return read

    assert outcome(lambda here: None) == ""
    assert outcome(lambda here: 1 / 0) == "a traceback"
    assert outcome(lambda here: os.abort()) == "died by signal 6"
    assert outcome(lambda here: bytearray(4 * 2**30)) == "a traceback", "memory is limited"
    assert outcome(leave(2, "error: no.")) == ""
    assert outcome(leave(2)) == "no sentence, or several"
    assert outcome(leave(2, "error: a.\nerror: b.")) == "no sentence, or several"
    assert outcome(leave(3, "error: no.")) == "exit code 3"
    assert outcome(leave(3, "error: no."), codes=frozenset({3})) == ""
    assert outcome(leave(0, "\x1b[2J")) == "control characters in what is printed"
