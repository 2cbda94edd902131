"""The papers' tables and figures as declarations. Importing this package enters them all."""

from fluoroscope.studies.frontier import adaptive as _adaptive
from fluoroscope.studies.frontier import filters as _filters
from fluoroscope.studies.frontier import hospital_study as _hospital
from fluoroscope.studies.frontier import local_rounds as _local_rounds
from fluoroscope.studies.frontier import map_study as _map
from fluoroscope.studies.frontier import several_steps as _several_steps
from fluoroscope.studies.frontier import studies as _frontier
from fluoroscope.studies.p1 import defence_studies as _p1_defence
from fluoroscope.studies.p1 import studies as _p1
from fluoroscope.studies.p2 import studies as _p2
from fluoroscope.studies.p3 import membership_studies as _p3_membership
from fluoroscope.studies.p3 import studies as _p3
from fluoroscope.studies.p4 import studies as _p4
from fluoroscope.studies.study import STUDIES, Study

__all__ = ["STUDIES", "Study"]

del _adaptive, _filters, _frontier, _hospital, _local_rounds, _map, _several_steps
del _p1, _p1_defence, _p2, _p3, _p3_membership, _p4
