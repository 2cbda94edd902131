"""Joins the stages: a plan in, findings out. The only room that knows them all."""

from fluoroscope.audit.plan import AuditPlan, read_audit_plan
from fluoroscope.audit.run import Intended, audit, intend
from fluoroscope.report.federation_page import federation_page, federation_summary

__all__ = ["AuditPlan", "Intended", "audit", "federation_page", "federation_summary", "intend", "read_audit_plan"]
