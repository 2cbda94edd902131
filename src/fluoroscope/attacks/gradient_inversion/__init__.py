"""Gradient inversion: images whose simulated update is the one that was seen."""
