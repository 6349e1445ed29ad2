"""What findings are made from: the rollouts, their statistics, and what their rewards can be."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.judge.alike import Alike, alike
from rovrl.audit.judge.checks import Jump, Stretch, repeated_groups, scale_jump, unlikely_stretches
from rovrl.audit.judge.expect import Expectations
from rovrl.audit.judge.outliers import Outliers, Rejected, outliers, rejected
from rovrl.audit.judge.trained import Trained, left_out
from rovrl.audit.measure.ratios import RatioTable
from rovrl.audit.measure.statistics import GroupTable
from rovrl.audit.read.rollouts import Rollouts


@dataclass(frozen=True)
class Evidence:
    """What findings are made from."""

    rollouts: Rollouts
    table: GroupTable
    ratios: RatioTable | None
    mixed: tuple[int, int]
    """(groups that hold different prompts, groups looked at)"""
    trained: Trained = field(default_factory=Trained)
    """How the run was trained, as far as that is known."""
    by_prompt: bool = False
    """Groups were made from equal prompts, so their ids cannot be wrong."""
    expect: Expectations = field(default_factory=Expectations)
    asked: frozenset[str] = field(default_factory=frozenset)
    """Codes whose threshold the user gave: those count every dominating reward, whatever it may be."""

    @cached_property
    def outliers(self) -> Outliers:
        """The dominating rewards, each with what it can be."""
        return outliers(self.rollouts, self.table, self.expect)

    @cached_property
    def rejected(self) -> Rejected:
        """The rewards shown to be faults."""
        return rejected(self.rollouts, self.table, self.expect)

    @cached_property
    def alike(self) -> Alike | None:
        """Whether groups differ as groups do; None where that cannot be said, or where saved prompts prove the ids."""
        proven = self.by_prompt or (self.mixed[1] > 0 and self.mixed[0] == 0)
        return None if proven else alike(self.rollouts, self.table)

    @cached_property
    def stretches(self) -> list[Stretch]:
        """Stretches of groups tied at one number that chance does not explain."""
        return unlikely_stretches(self.rollouts, self.table)

    @cached_property
    def repeated(self) -> NDArray[np.bool_]:
        """Groups whose rewards come again elsewhere, where chance does not explain it."""
        return repeated_groups(self.rollouts, self.table)

    @cached_property
    def jump(self) -> Jump | None:
        """The clearest lasting change of the rewards' scale."""
        return scale_jump(self.rollouts, self.table)

    @cached_property
    def left_out(self) -> NDArray[np.bool_]:
        """Which responses the run itself left out of its update: their logged advantage is 0, others of the group's are not."""
        return left_out(self.rollouts)

    def groups_with(self, *kinds: str) -> NDArray[np.int64]:
        """The groups with a reward of one of these kinds that the run used."""
        here = np.logical_or.reduce([self.outliers.kind == kind for kind in kinds])
        return np.unique(self.outliers.group[here & ~self.left_out[self.outliers.row]])

    def suspects(self, code: str) -> NDArray[np.bool_]:
        """Groups in which a reward that the run used stands apart or is shown to be a fault; all dominated ones if asked."""
        if code in self.asked:
            return self.table.dominating > 0
        found = np.zeros(len(self.table.size), dtype=bool)
        found[self.groups_with("apart")] = True
        found[self.rejected.group[~self.left_out[self.rejected.row]]] = True
        return found

    def lost_to(self, groups: NDArray[np.bool_], method: str = "own") -> float:
        """Mean over untied groups of the contrast that `groups` lost under the run's "own" advantages, "grpo" or "credit"."""
        names = {"grpo": "lost", "credit": "lost_credit", "own": "lost_own" if self.logged else "lost"}
        lost = np.where(groups, np.nan_to_num(getattr(self.table, names[method])), 0.0)
        return float(np.mean(lost[self.table.untied])) if self.table.untied.any() else 0.0

    @property
    def logged(self) -> bool:
        """Whether the run logged its advantages."""
        return bool(np.isfinite(self.table.lost_own).any())
