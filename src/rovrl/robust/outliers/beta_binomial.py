"""Hits that follow their groups: beta-binomial counts of many groups, some of which show none of their hits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

HIDDEN: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "none": lambda m: m + 1,
    "majorities": lambda m: (m + 1) // 2,
    "whole": lambda m: m,
}
"""Name -> from how many hits on a group of m shows none: its center goes over to a majority; a whole group has no contrast."""


@dataclass(frozen=True)
class Shape:
    """The sizes of groups that occur in some strata, how many groups have each, and the beta-binomial laws of their hits."""

    strata: np.ndarray
    stratum: np.ndarray
    """Of each size: its place among these strata, ascending."""
    sizes: np.ndarray
    groups: np.ndarray

    @cached_property
    def _places(self) -> tuple[np.ndarray, ...]:
        """m, n, (m - n)/(n + 1), where n ≥ m."""
        m, n = self.sizes[:, None].astype(float), np.arange(self.sizes.max() + 1.0)
        return m, n, (m - n) / (n + 1), n >= m

    @cached_property
    def _seen(self) -> dict[str, np.ndarray]:
        """Of n hits those that can be seen, by the names of `HIDDEN`."""
        m, n, _, _ = self._places
        return {name: np.where(n < first(m), n, 0.0) for name, first in HIDDEN.items()}

    def _chances(self, rate: np.ndarray, rho: np.ndarray) -> np.ndarray:
        """P(n hits) for each size m and n = 0 ... max m, with the rate and the correlation of each stratum."""
        m, n, ratio, over = self._places
        total = (1 - rho) / rho
        a, b = ((share * total)[self.stratum, None] for share in (rate, 1 - rate))
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = np.log(ratio * (a + n) / (b + m - n - 1))
        steps[over] = -np.inf
        logs = np.zeros_like(steps)
        np.cumsum(steps[:, :-1], -1, out=logs[:, 1:])
        p = np.exp(logs - logs.max(-1, keepdims=True))
        return p / p.sum(-1, keepdims=True)

    def _total(self, mean: np.ndarray) -> np.ndarray:
        """Over the groups of each stratum, from what one group of each size has."""
        return np.bincount(self.stratum, weights=self.groups * mean)

    def visible(self, rate: np.ndarray, rho: np.ndarray, hidden: str) -> np.ndarray:
        """E n of the hits that can be seen, summed over the groups of each stratum."""
        return self._total((self._chances(rate, rho) * self._seen[hidden]).sum(-1))

    def law(self, rate: np.ndarray, rho: np.ndarray, hidden: str) -> list[np.ndarray]:
        """E T, Var T, Cov(T, n), Var n of the hits that can be seen, summed over the groups of each stratum, independent."""
        p, seen = self._chances(rate, rho), self._seen[hidden]
        t = seen * (seen - 1) / 2
        en, et = (p * seen).sum(-1), (p * t).sum(-1)
        parts = et, (p * t * t).sum(-1) - et**2, (p * t * seen).sum(-1) - et * en, (p * seen**2).sum(-1) - en**2
        return [self._total(part) for part in parts]
