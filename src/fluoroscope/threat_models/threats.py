"""The threats of spec section 1 by name."""

from fluoroscope.registry import Registry
from fluoroscope.types import Capability, Knowledge

THREATS: Registry[Knowledge] = Registry("threats")

THREATS.add(
    "malicious-server",  # P2: crafts what it sends; of the answers it sees the sum, which an observation's cohort names
    Knowledge(
        "malicious server",
        frozenset({Capability.ARCHITECTURE, Capability.TRAINING, Capability.GLOBAL_STATE, Capability.UPDATE}),
    ),
)
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
                Capability.PUBLIC_IMAGES,
                Capability.DEFENCE,
            }
        ),
    ),
)
THREATS.add(
    "curious-client",  # P3: takes part; of every round it has the global model, and the metrics that the server tells
    Knowledge("client", frozenset({Capability.ARCHITECTURE, Capability.TRAINING, Capability.GLOBAL_STATE})),
)
