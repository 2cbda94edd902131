"""P4: how the configuration of an attack decides its result."""
