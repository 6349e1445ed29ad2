"""How a run was trained, as its records or its logged advantages show, and the contrast that its own advantages lost."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import Array, Counts
from rovrl.audit.measure.lost import credit_alone, grpo_alone, lost_contrast, others_of
from rovrl.audit.measure.settings import BySteps, own_settings, sharing_settings
from rovrl.audit.measure.statistics import GroupTable
from rovrl.audit.read.records import RecordReader
from rovrl.audit.read.rollouts import Rollouts
from rovrl.audit.read.rows import Reader
from rovrl.config import ADAPTIVE, RewardChannel
from rovrl.errors import RovrlError

MATCH_GROUPS = 500
"""Groups whose logged advantages are compared."""
TRL_EPSILON, MAD_EPSILON = 1e-4, 1e-6
"""What TRL adds to a standard deviation, and the textbook's robust z-score to its MAD."""

DEVIATION = {"grpo", "gspo", "gspo-clamp", "softrovr", "softrovr-robust", "softrovr-clamp", "gmpo", "sapo"}
"""Names of methods that divide by the group's standard deviation."""
NOTHING = {"dr_grpo", "dr-grpo", "rloo"}
"""Names of methods that divide by nothing."""


@dataclass(frozen=True)
class Trained:
    """How a run was trained, as far as the verdicts care."""

    method: str | None = None
    """The advantage method, by the records or by the logged advantages; None where neither shows it."""
    channel: RewardChannel | None = None
    """The run's own settings of the reward channel, where its records hold them."""
    by_step: BySteps = field(default_factory=dict)
    """The same with every number filled in, and its blocks; {} unless the records of every step hold them."""
    soft: bool = False
    """Whether SoftRoVR made the run's weights."""

    @property
    def bounded(self) -> bool:
        """Whether the run used bounded credit, the robust advantage."""
        name = (self.method or "").replace("_", "-")
        return name == "credit" or name.startswith(("rovr-gspo", "rovr-adv"))

    @property
    def divides_by_deviation(self) -> bool:
        """Whether its advantages are divided by the group's standard deviation."""
        return self.method in DEVIATION

    @property
    def divides_by_nothing(self) -> bool:
        """Whether its advantages are differences of rewards."""
        return self.method in NOTHING

    @property
    def adaptive(self) -> bool:
        """Whether the bound and the floor of its credit followed the rewards."""
        return self.channel is not None and {self.channel.credit_bound, self.channel.credit_floor} == {ADAPTIVE}

    @property
    def rejects(self) -> bool:
        """Whether it left out rewards that were shown to be faults."""
        return self.channel is not None and self.channel.faults == "reject"


def as_recorded(reader: Reader, rollouts: Rollouts) -> Trained:
    """What the records of a run say about its training; nothing of other dumps, and of damaged notes."""
    if not isinstance(reader, RecordReader):
        return Trained(reader.method)
    from rovrl import records  # with Parquet, which other dumps do not need

    said: Mapping[str, Any] = {}
    with suppress(RovrlError, ValueError, KeyError):
        found = records.read_settings(rollouts.files[0])
        said = found if isinstance(found, dict) else {}
    channel = None
    with suppress(ValueError, TypeError):
        channel = RewardChannel.from_dict(said["reward_channel"]) if said.get("reward_channel") else None
    soft = bool(said.get("ratio_channel")) or (reader.method or "").replace("_", "-").startswith("rovr-gspo")
    steps = own_settings(rollouts.files, set(rollouts.step.tolist())) if channel else {}
    return Trained(reader.method, channel, steps, soft)


def advantages_agree_with(rollouts: Rollouts, table: GroupTable, by_step: BySteps) -> str | None:
    """The estimator whose advantages the logged ones are, judged on the first untied groups of full size; None: none logged."""
    if rollouts.advantage is None or not np.isfinite(rollouts.advantage).any():
        return None
    usable = np.flatnonzero(table.untied & (table.finite == table.size))
    if not len(usable):
        return None
    size = int(np.bincount(table.size[usable]).argmax())
    usable = usable[table.size[usable] == size][:MATCH_GROUPS]
    rows = rollouts.start[usable][:, None] + np.arange(size)
    rewards, logged = rollouts.reward[rows], rollouts.advantage[rows]
    residual = rewards - rewards.mean(1, keepdims=True)
    middle = rewards - np.median(rewards, 1, keepdims=True)
    candidates = {
        "grpo": residual / (rewards.std(1, ddof=1, keepdims=True) + TRL_EPSILON),
        "dr_grpo": residual,
        "rloo": residual * (size / (size - 1)),
        "credit": _credit(rewards, rollouts.step[usable], by_step),
        "median_mad": middle / (1.4826 * np.median(np.abs(middle), 1, keepdims=True) + MAD_EPSILON),
    }
    with np.errstate(invalid="ignore"):
        for name, advantages in candidates.items():
            error = np.abs(advantages - logged).max(-1) / np.maximum(np.abs(logged).max(-1), 1e-9)
            if np.median(error) < 1e-2:  # TRL logs float32, and implementations differ in the epsilon under 1 %
                return name
    return "other"


def _credit(rewards: Array, step: Counts, by_step: BySteps) -> Array:
    found = np.empty(rewards.shape)
    for settings, part in sharing_settings(step, by_step):
        found[part] = settings.credit(rewards[part])
    return found


def lost_as_logged(rollouts: Rollouts, table: GroupTable, by_step: BySteps, trained: Trained) -> Array:
    """1 - C_H(A)/C_H(A_H) of each group, A the logged advantages; 0 where nothing dominates, NaN where none are logged.

    A_H is what the run's own method gives the others alone; of a method that is not known, what it usually gives the groups
    that nothing dominates. Methods that divide by nothing lose nothing.
    """
    if rollouts.advantage is None or not np.isfinite(rollouts.advantage).any():
        return np.full(rollouts.groups, np.nan)
    lost = np.where(table.untied, 0.0, np.nan)
    if trained.divides_by_nothing:
        return lost
    scored = ~np.isnan(rollouts.reward)
    reward, logged = rollouts.reward[scored], np.nan_to_num(rollouts.advantage[scored])
    start = np.append(0, np.cumsum(table.finite))
    usual = _usual_deviation(table, logged)
    hit = np.flatnonzero((table.dominating > 0) & (table.lost > 0))
    for n in np.unique(table.finite[hit]).tolist():
        groups = hit[table.finite[hit] == n]
        rows = start[groups][:, None] + np.arange(n)
        rewards = reward[rows]
        keep = others_of(rewards, table, groups)
        alone = np.full(len(groups), usual) if usual else grpo_alone(keep)
        if trained.divides_by_deviation:
            alone = grpo_alone(keep)
        elif trained.bounded:
            for settings, part in sharing_settings(rollouts.step[groups], by_step):
                alone[part] = credit_alone(rewards[part], keep[part], settings)
        lost[groups] = lost_contrast(logged[rows], keep, alone)
    return lost


def _usual_deviation(table: GroupTable, logged: Array) -> float:
    """The median standard deviation of logged advantages over the groups that carry a signal and that nothing dominates."""
    quiet = table.untied & (table.dominating == 0)
    if not quiet.any():
        return 0.0
    group = np.repeat(np.arange(len(table.finite)), table.finite)
    count = np.maximum(table.finite, 1)
    mean = np.bincount(group, weights=logged, minlength=len(count)) / count
    square = np.bincount(group, weights=(logged - mean[group]) ** 2, minlength=len(count)) / count
    return float(np.median(np.sqrt(square[quiet])))


def left_out(rollouts: Rollouts) -> NDArray[np.bool_]:
    """Which scored responses had no part in the update: advantage 0, where others of their group have another one."""
    if rollouts.advantage is None:
        return np.zeros(len(rollouts.reward), dtype=bool)
    moved = np.isfinite(rollouts.advantage) & (rollouts.advantage != 0)
    counts = np.add.reduceat(np.append(moved, False), rollouts.start[:-1], dtype=np.int64) > 0
    return (rollouts.advantage == 0) & ~np.isnan(rollouts.reward) & np.repeat(counts, rollouts.size)
