"""An audit of updates that were recorded: attacked as they are, without a plan of the federation."""
