"""The client as an attacker simulates it: one kind of round a file."""
