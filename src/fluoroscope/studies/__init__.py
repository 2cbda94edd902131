"""The papers' tables and figures as declarations. Importing this package enters them all."""

from fluoroscope.studies import frontier as _frontier
from fluoroscope.studies import p1_defence_studies as _p1_defence
from fluoroscope.studies import p1_studies as _p1
from fluoroscope.studies import p2_studies as _p2
from fluoroscope.studies import p3_membership_studies as _p3_membership
from fluoroscope.studies import p3_studies as _p3
from fluoroscope.studies import p4_studies as _p4
from fluoroscope.studies.study import STUDIES, Study

__all__ = ["STUDIES", "Study"]

del _frontier, _p1, _p1_defence, _p2, _p3, _p3_membership, _p4
