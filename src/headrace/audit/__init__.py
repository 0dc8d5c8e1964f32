"""A record of every delivery: what it says, and where it goes."""

from headrace.audit.record import AuditRecord

__all__ = ["AuditRecord"]
