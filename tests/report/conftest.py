"""One audit for all tests that only read it."""

import pytest

from tests.report.audits import make_audit


@pytest.fixture(scope="session")
def audit(tmp_path_factory):
    return make_audit(tmp_path_factory.mktemp("audit"))


@pytest.fixture(scope="session")
def patients(tmp_path_factory):
    return make_audit(tmp_path_factory.mktemp("patients"), synthetic=False)
