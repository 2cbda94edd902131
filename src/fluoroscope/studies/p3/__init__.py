"""P3: metric privacy against global DP, and client inference."""
