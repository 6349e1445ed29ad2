"""What can be tolerated? How far bad rewards can change the other advantages in the groups of a run, with certainty."""

from __future__ import annotations

import numpy as np

from rovrl.audit.measure.statistics import GroupTable
from rovrl.audit.read.rollouts import Rollouts
from rovrl.config import RewardChannel
from rovrl.guarantees import tolerance_of_groups

BAD = (1, 2, 3)
SAMPLE, LARGEST = 200, 2**14
"""Groups, and responses in all of them, that are searched: about a second whatever the run."""


def tolerated(rollouts: Rollouts, table: GroupTable, channel: RewardChannel) -> str | None:
    """The sentence of `tolerance_of_groups` on at most `SAMPLE` groups, evenly spaced over the run; None if it has none.

    Only groups with more than three finite rewards that are not all equal are asked: equal ones have advantages of 0. None
    also where the settings leave responses out, which depends on all rewards.
    """
    usable = np.flatnonzero((table.finite > max(BAD)) & ~table.tied)
    if not len(usable) or channel.faults != "bound":
        return None
    most = max(min(len(usable), SAMPLE, LARGEST // int(table.finite[usable].max())), 1)
    chosen = usable[np.linspace(0, len(usable) - 1, most).round().astype(np.int64)]
    rows = [rollouts.reward[rollouts.rows_of(group)] for group in chosen.tolist()]
    sentence = tolerance_of_groups([row[np.isfinite(row)] for row in rows], channel, replaced=BAD)
    return sentence + (f" ({most:,} of {len(usable):,} groups, evenly spaced)." if most < len(usable) else ".")
