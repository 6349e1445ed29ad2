"""How a run was trained, as far as the verdicts care: what its advantages divide by."""

from __future__ import annotations

DEVIATION = {None, "grpo", "gspo", "gspo-clamp", "softrovr", "softrovr-robust", "softrovr-clamp", "gmpo", "sapo"}
"""Names of methods that divide by the group's standard deviation; None: nothing is known, and most runs do."""
NOTHING = {"dr_grpo", "dr-grpo", "rloo"}
"""Names of methods that divide by nothing."""


def is_bounded(method: str | None) -> bool:
    """Whether the run used bounded credit, the robust advantage."""
    return method == "credit" or (method or "").replace("_", "-").startswith(("rovr-gspo", "rovr-adv"))
