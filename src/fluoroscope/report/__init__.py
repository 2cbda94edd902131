"""Plain findings in, pages out. Nothing here computes a result."""
