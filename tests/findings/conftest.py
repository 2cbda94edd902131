"""The audit of the report's tests, read here too."""

from tests.report.conftest import audit  # noqa: F401
