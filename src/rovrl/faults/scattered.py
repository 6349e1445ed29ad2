"""Is what lies far away scattered by chance? Then it is no merit, be it shown to be faults or not, and no scale either."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from torch import Tensor

from rovrl.faults.candidates import ERROR, UNSUSPICIOUS, ordinary_share
from rovrl.faults.evidence import SMALLEST
from rovrl.faults.merit import SMALLEST_MEAN
from rovrl.robust.outliers import dispersion
from rovrl.robust.outliers.bulk import SortedGroups
from rovrl.robust.outliers.dispersion import Design


@dataclass(frozen=True)
class Scattered:
    """Whether the rewards beyond a distance from their group's median are spread over the groups as chance spreads them.

    `groups` without what was shown to be faults, in one unit, that of the distance; `strata` as in `shown`. No gap is needed
    here, and opposite sides count together: nothing is left out by this, the far rewards only say nothing about the scale of
    the others. They have to look like chance (p-value of at least `UNSUSPICIOUS`), and it must have been seen if they followed
    their prompts: as ordinary verdicts do, or by a slight part of that if they lie on one side. Nothing is said of groups
    smaller than six on average.
    """

    groups: SortedGroups
    strata: np.ndarray

    @classmethod
    def of(cls, groups: Sequence[Float[Tensor, "group n"]]) -> Scattered:
        """By one matrix of rewards for each group size alone."""
        rows = [own.detach().double().cpu().numpy() for own in groups if own.numel()]
        sizes = np.concatenate([np.full(len(own), own.shape[-1]) for own in rows] or [np.zeros(0, int)])
        values = np.concatenate([own.ravel() for own in rows] or [np.zeros(0)])
        every = SortedGroups.of(values, np.repeat(np.arange(len(sizes)), sizes), len(sizes))
        return cls(every, np.zeros(len(sizes), int))

    def __call__(self, distance: float) -> bool:
        """Whether what lies farther than the distance is scattered by chance."""
        if self._design.mean_size < SMALLEST_MEAN:
            return False
        above, below = (self.groups.count(side > distance).astype(float) for side in (self._residual, -self._residual))
        hits = np.where(self._design.sizes > 0, above + below, 0.0)
        found, by_stratum = dispersion.pairs(hits), self._design.by_stratum(hits)
        expected, share = dispersion.chance(by_stratum, self._design), ordinary_share(above, below)
        if dispersion.overdispersion(found, expected) < UNSUSPICIOUS:
            return False
        return dispersion.ordinary(found, expected, by_stratum, self._design, hidden="majorities", share=share) <= ERROR

    @cached_property
    def _design(self) -> Design:
        return Design(np.where(self.groups.size >= SMALLEST, self.groups.size, 0), self.strata)

    @cached_property
    def _residual(self) -> np.ndarray:
        return self.groups.residual(self.groups.median(np.zeros_like(self.groups.size), self.groups.size))
