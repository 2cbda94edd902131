"""P1: gradient inversion against nine hospitals, and what noise does about it."""
