"""Images in [0, 1] with labels, patients and a licence; and who holds which of them."""
