"""What a threat model grants: Knowledge, and the way from a record or a round to an Observation."""

from fluoroscope.threat_models.observe import observe
from fluoroscope.threat_models.participant import ParticipantObservation, observe_round
from fluoroscope.threat_models.threats import THREATS

__all__ = ["THREATS", "ParticipantObservation", "observe", "observe_round"]
