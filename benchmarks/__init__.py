"""Speed, as ratios within one run, on a quiet machine. Never asserted in a test."""
