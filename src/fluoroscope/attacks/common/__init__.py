"""What attacks of several families share: the descent, its starts, its checkpoints, and what BatchNorm tells."""
