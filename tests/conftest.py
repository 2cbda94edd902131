"""Imported before any test, so that threads are set up before torch starts them."""

import os

from fluoroscope import process_tuning

if "PYTEST_XDIST_WORKER" in os.environ:  # as many workers as cores: more threads would only wait for one another
    os.environ.setdefault("OMP_NUM_THREADS", "1")
process_tuning.apply()


def pytest_collection_modifyitems(items):
    """The longest test starts first, or one core would wait for it at the end."""
    items.sort(key=lambda item: item.get_closest_marker("first") is None)
