"""How a run was trained, as far as the verdicts care: what its advantages divide by."""

from __future__ import annotations

import numpy as np

from rovrl.audit.measure.reference import credit, references
from rovrl.audit.measure.statistics import GroupTable
from rovrl.audit.read.rollouts import Rollouts
from rovrl.config import RewardChannel
from rovrl.partition import partition

MATCH_GROUPS = 500
"""Groups whose logged advantages are compared."""
TRL_EPSILON, MAD_EPSILON = 1e-4, 1e-6
"""What TRL adds to a standard deviation, and the textbook's robust z-score to its MAD."""

DEVIATION = {"grpo", "gspo", "gspo-clamp", "softrovr", "softrovr-robust", "softrovr-clamp", "gmpo", "sapo"}
"""Names of methods that divide by the group's standard deviation."""
NOTHING = {"dr_grpo", "dr-grpo", "rloo"}
"""Names of methods that divide by nothing."""


def is_bounded(method: str | None) -> bool:
    """Whether the run used bounded credit, the robust advantage."""
    return method == "credit" or (method or "").replace("_", "-").startswith(("rovr-gspo", "rovr-adv"))


def trained_with(rollouts: Rollouts, table: GroupTable, channels: dict[int, RewardChannel]) -> str | None:
    """The estimator whose advantages the logged ones are, judged on the first untied groups of full size."""
    if rollouts.advantage is None or not np.isfinite(rollouts.advantage).any():
        return None
    usable = np.flatnonzero(table.untied & (table.finite == table.size))
    if not len(usable):
        return None
    size = int(np.bincount(table.size[usable]).argmax())
    usable = usable[table.size[usable] == size][:MATCH_GROUPS]
    rows = rollouts.start[usable][:, None] + np.arange(size)
    rewards, logged = rollouts.reward[rows], rollouts.advantage[rows]
    channel = channels.get(-1) or channels[min(channels)]
    reference = references(rewards, partition(size, channel)[0], channel)[0]
    residual = rewards - rewards.mean(1, keepdims=True)
    middle = rewards - np.median(rewards, 1, keepdims=True)
    candidates = {
        "grpo": residual / (rewards.std(1, ddof=1, keepdims=True) + TRL_EPSILON),
        "dr_grpo": residual,
        "rloo": residual * (size / (size - 1)),
        "credit": credit(rewards, reference, channel),
        "median_mad": middle / (1.4826 * np.median(np.abs(middle), 1, keepdims=True) + MAD_EPSILON),
    }
    with np.errstate(invalid="ignore"):
        for name, advantages in candidates.items():
            error = np.abs(advantages - logged).max(-1) / np.maximum(np.abs(logged).max(-1), 1e-9)
            if np.median(error) < 1e-2:  # TRL logs float32, and implementations differ in the epsilon under 1 %
                return name
    return "other"
