"""The examples of the filters and of what reads them run."""

import doctest
from importlib import import_module

import pytest

FILTERS = ("adaptive_clipping", "local_dp", "percentile_privacy", "svt_privacy")
READERS = ("imported.flower", "imported.nvflare", "imported.tables")


@pytest.mark.parametrize("name", [*FILTERS, *READERS])
def test_its_examples_run(name):
    found = doctest.testmod(import_module(f"fluoroscope.defences.{name}"))
    assert found.attempted
    assert not found.failed
