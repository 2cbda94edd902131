"""The threats of spec section 1 by name."""

from fluoroscope.registry import Registry
from fluoroscope.types import Capability, Knowledge

THREATS: Registry[Knowledge] = Registry("threats")

THREATS.add(
    "curious-server",  # P1, P4: follows the protocol, sees one client's update and the configuration
    Knowledge(
        "server",
        frozenset(
            {
                Capability.ARCHITECTURE,
                Capability.TRAINING,
                Capability.GLOBAL_STATE,
                Capability.UPDATE,
                Capability.BUFFERS,
                Capability.PRIOR,
            }
        ),
    ),
)
