"""Offline audit of saved rollouts: what did the group statistics do to this run?

result = rovrl.audit.audit("outputs/run")
print(result.show())
result.write("outputs/run/audit")        # audit.html and audit.json
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # at run time each name is imported when it is first asked for: `rovrl --help` needs no torch
    from rovrl.audit.comparing import Comparison, compare
    from rovrl.audit.read.rows import Columns
    from rovrl.audit.result import AuditResult
    from rovrl.audit.run import audit, audit_all

__all__ = ["AuditResult", "Columns", "Comparison", "audit", "audit_all", "compare"]

_HOMES = {
    "AuditResult": "result", "Columns": "read.rows", "Comparison": "comparing", "audit": "run", "audit_all": "run",
    "compare": "comparing",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"rovrl.audit.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
