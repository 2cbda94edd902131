"""R-GAP: one image, layer by layer from the last to the first."""
