"""Which setting of a defence is safe, at the least cost: a search over attacks, then the price in accuracy."""
