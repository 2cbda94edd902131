import pytest

from fluoroscope.integrations.site_filter import opened

from .doors import Door


@pytest.fixture
def door(monkeypatch):
    """What every policy opens while the test runs."""
    made = Door()
    monkeypatch.setattr("fluoroscope.site.opening.open_site", lambda policy, ledger=None: made)
    opened.cache_clear()
    yield made
    opened.cache_clear()
