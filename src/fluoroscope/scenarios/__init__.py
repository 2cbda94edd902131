"""Whole attacks: a victim, its round, what the attacker saw of it, the guess and its score.

Audits, calibration, studies and commands share them.
"""
