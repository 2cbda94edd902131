"""One architecture a file, each registered by name."""
