"""Imported before any test, so that the house sets up its threads before torch starts them."""

import fluoroscope  # noqa: F401
