"""Pure functions that measure: what leaks, and what the model is good for."""
