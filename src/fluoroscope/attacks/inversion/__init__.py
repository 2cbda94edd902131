"""Gradient inversion: from an update back to the images that made it."""
