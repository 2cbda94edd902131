"""Imported before any test, so that threads are set up before torch starts them."""

from fluoroscope import process_tuning

process_tuning.apply()
