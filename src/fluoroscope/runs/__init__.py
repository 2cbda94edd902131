"""Folders of runs: what lies in them, whether it is whole, and what of it is patients'."""
