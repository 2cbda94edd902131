"""What the papers claim, and what our findings say to it."""
