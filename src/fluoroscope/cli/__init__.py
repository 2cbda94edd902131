"""The command line: strings at the edge, one sentence on an error, exit codes that mean something."""

from fluoroscope.cli.app import main

__all__ = ["main"]
