"""Attacks: from what was observed to a guess at what was private."""
