"""Attacks that guess who took part and whose image was trained on: scores of candidates, no images."""
