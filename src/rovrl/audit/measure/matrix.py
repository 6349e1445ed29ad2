"""Groups of one size, side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rovrl.audit.arrays import Array, Counts


@dataclass(frozen=True)
class Matrix:
    """The groups with n finite rewards."""

    groups: Counts
    place: Counts | slice
    """The same to index by: a slice where they follow each other, which is faster."""
    rewards: Array
    """[group, n]"""
    columns: Array
    """[n, group]: what is computed runs along groups, which do not depend on each other."""

    @property
    def size(self) -> int:
        """n."""
        return self.rewards.shape[1]

    @classmethod
    def of(cls, values: Array, start: Counts, groups: Counts, n: int) -> Matrix:
        """The rewards of `groups`, each n of `values` from its start on: a view where they lie one after the other."""
        first = start[groups]
        if len(groups) * n == first[-1] - first[0] + n:
            rewards = values[first[0] : first[-1] + n].reshape(-1, n)
        else:
            rewards = values[first[:, None] + np.arange(n)]
        together = groups[-1] - groups[0] + 1 == len(groups)
        place = slice(int(groups[0]), int(groups[-1]) + 1) if together else groups
        return cls(groups, place, rewards, np.ascontiguousarray(rewards.T))
