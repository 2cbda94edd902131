"""The client as an attacker simulates it: one kind of round per file."""
