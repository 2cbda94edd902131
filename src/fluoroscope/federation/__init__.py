"""A federation on Flower: local training, the apps, the recorder and the store of records."""

import os

# A privacy instrument reports to nobody: set before Flower is imported anywhere below.
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")
