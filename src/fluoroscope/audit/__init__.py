"""Joins the stages: a plan in, findings out. The only room that knows them all."""

from fluoroscope.audit.plan import AuditPlan, read_audit_plan
from fluoroscope.audit.run import PlannedCells, audit, plan_cells
from fluoroscope.audit.updates.run import audit_updates

__all__ = [
    "AuditPlan",
    "PlannedCells",
    "audit",
    "audit_updates",
    "plan_cells",
    "read_audit_plan",
]
