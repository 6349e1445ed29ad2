"""Earlier steps as evidence: what must be kept of them to run the test again, as plain values of bounded size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from rovrl.robust.outliers.bulk import SortedGroups

SMALLEST = 4
"""Smaller groups do not count as evidence: their center follows a single hit."""
CAPACITY = 4096
"""Responses kept: with groups of 16 those of 256 groups, enough to tell 5 % faults from right answers."""
LARGEST_CAPACITY = 1 << 20
"""More than a million responses would slow every step; a state that says so is damaged."""
DIGITS = 6
"""Significant digits kept of a residual."""

Step = tuple[list[int], list[float]]
"""The sizes of a step's groups, and the residuals of their members one group after the other."""


class FaultWindow:
    """The residuals of the last few thousand responses, step by step.

    A residual is a reward minus its group's median: the test looks at differences within groups only, about centers of its own.
    Rewards themselves could not be rounded. Groups with fewer than four finite rewards show nothing and are not kept. A step
    that alone exceeds the capacity needs no help and is not kept either.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        if isinstance(capacity, bool) or not isinstance(capacity, int) or not 0 <= capacity <= LARGEST_CAPACITY:
            raise ValueError(
                f"the capacity of a FaultWindow must be a whole number from 0 to {LARGEST_CAPACITY}, not {capacity!r}"
            )
        self.capacity = capacity
        self.steps: list[Step] = []

    def __len__(self) -> int:
        """The number of responses kept."""
        return sum(len(residuals) for _, residuals in self.steps)

    def add(self, rewards: Tensor, group: Tensor) -> None:
        """Takes a step in; the oldest steps make room for it."""
        step = _step(rewards.detach().double().cpu().numpy(), group.cpu().numpy())
        if len(step[1]) > self.capacity:
            self.steps.clear()  # it needs no help, and what came before it has aged
        if not 0 < len(step[1]) <= self.capacity:
            return
        self.steps.append(step)
        while len(self) > self.capacity:
            self.steps.pop(0)

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on after a restart, as plain numbers and lists."""
        return {"capacity": self.capacity, "steps": [[list(sizes), list(values)] for sizes, values in self.steps]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` gave."""
        missing = {"capacity", "steps"} - set(state)
        if missing:
            raise ValueError(f"the state of a FaultWindow needs capacity and steps; {sorted(missing)} is missing")
        steps = [
            ([int(size) for size in sizes], [float(value) for value in values]) for sizes, values in state["steps"]
        ]
        for sizes, values in steps:
            if sum(sizes) != len(values) or min(sizes, default=1) < 1 or not np.isfinite(values).all():
                raise ValueError(
                    "a step of a FaultWindow must have as many finite residuals as its group sizes add up to"
                )
        capacity = FaultWindow(state["capacity"]).capacity  # refuses what the constructor refuses
        self.capacity, self.steps = capacity, steps


def _step(rewards: np.ndarray, group: np.ndarray) -> Step:
    finite = np.isfinite(rewards)
    _, codes, sizes = np.unique(group[finite], return_inverse=True, return_counts=True)
    kept = sizes[codes] >= SMALLEST
    if not kept.any():
        return [], []
    sizes = sizes[sizes >= SMALLEST]
    _, codes = np.unique(codes[kept], return_inverse=True)
    groups = SortedGroups.of(rewards[finite][kept], codes, len(sizes))
    residual = groups.residual(groups.median(np.ones(len(groups.values), bool)))
    return sizes.tolist(), [float(f"{value:.{DIGITS - 1}e}") for value in residual.tolist()]
