"""What a threat model grants: Knowledge, and the way from a record to an Observation."""

from fluoroscope.adversary.observe import observe
from fluoroscope.adversary.threats import THREATS

__all__ = ["THREATS", "observe"]
