"""Imported before any test, so that threads are set up before torch starts them."""

import os

import pytest

from fluoroscope import process_tuning

if "PYTEST_XDIST_WORKER" in os.environ:  # as many workers as cores: more threads would only wait for one another
    os.environ.setdefault("OMP_NUM_THREADS", "1")
process_tuning.apply()


def pytest_collection_modifyitems(items):
    """The longest test starts first, or one core would wait for it at the end."""
    items.sort(key=lambda item: item.get_closest_marker("first") is None)


@pytest.fixture(scope="module")  # longer than a file's tests its event loop must not live: others start their own
def chromium():
    """A browser for the tests of pages; they skip where there is none."""
    sync_api = pytest.importorskip("playwright.sync_api")
    from fluoroscope.report.browser import find_browser

    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
        yield browser
        browser.close()
