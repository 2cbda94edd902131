"""The defences by name."""

from typing import Any

from fluoroscope.defences.contract import Defence
from fluoroscope.registry import Registry

DEFENCES: Registry[type[Defence] | Any] = Registry("defences")
"""Classes: a defence is made from its settings."""
DEFENCES.alias("global-dp", "central-dp")  # P3's word for it
