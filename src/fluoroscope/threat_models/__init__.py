"""What a threat model grants: Knowledge, and the way from a record to an Observation."""

from fluoroscope.threat_models.observe import observe
from fluoroscope.threat_models.threats import THREATS

__all__ = ["THREATS", "observe"]
