"""Offline audit of saved rollouts: what did the group statistics do to this run?

result = rovrl.audit.audit("outputs/run")
print(result.show())
result.write("outputs/run/audit")        # audit.html and audit.json
"""

from rovrl.audit.compare import Comparison, compare
from rovrl.audit.read.rows import Columns
from rovrl.audit.result import AuditResult
from rovrl.audit.run import audit, audit_all

__all__ = ["AuditResult", "Columns", "Comparison", "audit", "audit_all", "compare"]
