"""Attacks that solve equations where others search."""
