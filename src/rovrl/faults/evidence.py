"""The evidence on one side: the lowest threshold beyond which rewards are shown to be faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from rovrl.faults.nearest import LAYERED, least_distance
from rovrl.robust.outliers import dispersion
from rovrl.robust.outliers.bulk import SortedGroups
from rovrl.robust.outliers.dispersion import Design
from rovrl.robust.outliers.gaps import WIDTHS, Cut, cuts

ERROR = 0.05
"""The declared error rate of one call, shared by all its tests (a quarter for each side, half for both together) and their
thresholds: the chance that verdicts dispersed like ordinary ones are taken for faults."""
MISSED = 0.03
"""Likewise the chance that faults are found dispersed, and kept."""
MOST = 0.5
"""At most this share of all responses can be faults on one side."""
SMALLEST = 4
"""Smaller groups do not count as evidence: their center follows a single hit."""
NEGLIGIBLE, MISPLACED = 0.15, 0.1
"""An excess of this share of the expected pairs is not dispersion, however significant: some centers are misplaced. Those show
on the other side; with fewer opposite hits than the second share of all, correspondingly less is excused."""
LIKE = 1.6
"""Opposite hits are of one kind up to this many times the distance of the farthest."""
REMAINDER, UNSUSPICIOUS = 0.4, 0.05
"""Hits up to this share of the faults shown before may lack power of their own, if their p-value is above the second number."""
MEETINGS, MET = 6, 0.5
"""Where this many meetings of opposite hits in one group are expected by chance, half of them show that both sides mix."""
PART, EVIDENT, FACTOR = 0.25, 1e-3, 1.5
"""What is at least this share of a cut's hits is merit if chance makes its pairs with less than the second number as
probability, and they are this many times more."""
MIXED = 0.05
"""The share of groups with hits on both sides up to which a side can be seen as one of two levels."""


@dataclass(frozen=True)
class Side:
    """What was found on one side of the groups' centers."""

    threshold: float = float("inf")
    """Responses farther than this from their group's center are faults; infinity if none are."""
    hits: int = 0
    """How many there are in groups of 4 and more, of this batch and of the window."""
    dispersion: float = float("nan")
    """Pairs of them that share a group, over the number expected by chance: 1 for faults, larger for merit."""
    p_value: float = float("nan")
    """The chance of that many pairs, if they are faults."""


def search(groups: SortedGroups, residual: np.ndarray, unit: float, design: Design) -> Side:
    """The lowest threshold that is shown, from the farthest gap inwards; `residual` is positive on this side.

    What lies between a threshold that is shown and the next has to be shown by itself: many faults would hide some merit. And
    nothing is shown together with a layer farther out that follows the prompts by itself.
    """
    evidence, found = _evidence(groups, residual, least_distance(groups, residual, unit, design), design, ERROR / 4)
    shown: Cut | None = None
    for cut in found if design.mean_size >= LAYERED else found[:1]:
        if (evidence.shows(cut, shown) or (shown and evidence.extends(shown, cut))) and not any(
            evidence.is_merit(far, cut, shown) for far in found
        ):
            shown = cut
    return evidence.side(shown) if shown else Side()


def search_together(groups: SortedGroups, residual: np.ndarray, unit: float, design: Design) -> tuple[Side, Side]:
    """What is shown above and below by the hits of both sides together, for batches too small to show it for each.

    Hits on both sides have twice the number. They have to meet in the same groups as often as chance makes them, and neither
    side may look dispersed by itself: of several levels of merit the middle one has others on both sides.
    """
    least = least_distance(groups, residual, unit, design, both=True)
    evidence, found = _evidence(groups, np.abs(residual), least, design, ERROR / 2)
    for cut in found if design.mean_size >= LAYERED else found[:1]:
        far = (evidence.residual >= cut.at) & groups.of_members(design.sizes > 0)
        up, down = (groups.count(far & (sign * residual > 0)).astype(float) for sign in (1, -1))
        both = up + down
        unsuspicious = all(evidence.chance_of(counts) >= UNSUSPICIOUS for counts in (up, down, both))
        alike = _alike(groups, residual, far)
        if unsuspicious and evidence.even_not_ordinary(both, evidence.chance(both)) and evidence.meets(*alike):
            return evidence.measured(cut.threshold, up), evidence.measured(cut.threshold, down)
    return Side(), Side()


def layers(
    groups: SortedGroups, residual: np.ndarray, unit: float, design: Design
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(distances, hits per group, opposite hits per group) beyond each gap on the positive side, the nearest gap first."""
    least = least_distance(groups, residual, unit, design)
    evidence, found = _evidence(groups, residual, least, design, ERROR)
    for cut in reversed(found):
        distance = evidence.distance[evidence.distance >= cut.at]
        yield distance, evidence.counts(cut, None), evidence.opposite(cut, None)


def _alike(groups: SortedGroups, residual: np.ndarray, far: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Hits per group above and below, without those far beyond anything on the other side: they are of another kind."""
    sides = far & (residual > 0), far & (residual < 0)
    end = LIKE * min(float(np.abs(residual[side]).max(initial=0.0)) for side in sides)
    above, below = (groups.count(side & (np.abs(residual) <= end)).astype(float) for side in sides)
    return above, below


def _evidence(
    groups: SortedGroups, residual: np.ndarray, least: float, design: Design, error: float
) -> tuple[_Evidence, list[Cut]]:
    """The hits beyond `least` on the positive side of the residuals, and the cuts among them that share the error rate."""
    used = residual if design.sizes.all() else np.where(groups.of_members(design.sizes > 0), residual, 0.0)
    far = np.flatnonzero(used > least)
    distance, found = residual[far], []
    if len(far):
        nearer = used[(used > least / WIDTHS[-1]) & (used <= least)]
        found = cuts(np.sort(distance)[::-1], least, MOST * float(design.members.sum()), nearer=nearer)
    return _Evidence(groups, residual, design, distance, groups.group[far], error / max(len(found), 1)), found


@dataclass(frozen=True)
class _Evidence:
    groups: SortedGroups
    residual: np.ndarray
    design: Design
    distance: np.ndarray
    """How far out each candidate is."""
    group: np.ndarray
    """Its group."""
    level: float

    def counts(self, cut: Cut, beyond: Cut | None) -> np.ndarray:
        """How many of the candidates from the cut on, and not `beyond` another one, belong to each group."""
        chosen = self.distance >= cut.at
        if beyond:
            chosen &= self.distance < beyond.at
        return np.bincount(self.group[chosen], minlength=len(self.groups.size)).astype(float)

    def shows(self, cut: Cut, beyond: Cut | None) -> bool:
        """Whether the candidates from the cut to the one beyond are faults: evenly spread, and not merely for lack of power."""
        counts = self.counts(cut, beyond)
        expected = self.chance(counts)
        opposite = cache(lambda: self.opposite(cut, beyond))
        if not self.even_not_ordinary(counts, expected, opposite=opposite):
            return False
        if self.even_not_ordinary(counts, expected, opposite=opposite, hidden="majorities"):
            return True
        return self.meets(counts, opposite()) or self.two_levels(counts, opposite())

    def even_not_ordinary(
        self,
        counts: np.ndarray,
        expected: dispersion.Moments,
        *,
        opposite: Callable[[], np.ndarray] | None = None,
        hidden: str = "none",
    ) -> bool:
        """Whether the counts vary no more than chance allows (`expected`: its moments), and less than ordinary verdicts.

        A negligible excess is excused; given the `opposite` hits, only as far as they show that centers are misplaced.
        """
        found = dispersion.pairs(counts)
        if dispersion.overdispersion(found, expected) < self.level * MISSED / ERROR:
            misplaced = float(opposite().sum()) / max(MISPLACED * float(counts.sum()), 1.0) if opposite else 1.0
            if found - expected.mean > NEGLIGIBLE * min(1.0, misplaced) * expected.mean:
                return False
        hits = self.design.by_stratum(counts)
        return dispersion.ordinary(found, expected, hits, self.design, hidden=hidden) <= self.level

    def chance_of(self, counts: np.ndarray) -> float:
        """The p-value: how often chance makes as many pairs in one group, or more."""
        return dispersion.overdispersion(dispersion.pairs(counts), self.chance(counts))

    def chance(self, counts: np.ndarray) -> dispersion.Moments:
        """What chance would do with as many hits in each stratum."""
        return dispersion.chance(self.design.by_stratum(counts), self.design)

    def opposite(self, cut: Cut, beyond: Cut | None) -> np.ndarray:
        """Hits per group that are as far out on the other side, and not far beyond what is found on this one."""
        mine = self.distance < (beyond.at if beyond else np.inf)
        with np.errstate(over="ignore"):  # at the end of the range of numbers
            farthest = LIKE * float(self.distance[mine].max(initial=cut.at))
        farthest = min(farthest, beyond.at) if beyond else farthest
        far = (self.residual < -cut.at * (1 - 1e-3)) & (self.residual >= -farthest)
        return self.groups.count(far & self.groups.of_members(self.design.sizes > 0)).astype(float)

    def meets(self, counts: np.ndarray, opposite: np.ndarray) -> bool:
        """Whether opposite hits share groups as often as by chance. Right and wrong answers do not: the center is one of them.

        So this replaces the power that counts lack because more than half of a group cannot be seen.
        """
        design = self.design
        expected = 2 * design.edges * design.by_stratum(counts) * design.by_stratum(opposite)
        expected = float((expected / np.maximum(design.members * (design.members - 1), 1)).sum())
        return expected >= MEETINGS and float((counts * opposite).sum()) >= MET * expected

    def two_levels(self, counts: np.ndarray, opposite: np.ndarray) -> bool:
        """The same test with every group seen from its lower level: where that has hits below, the center itself is a hit.

        A group that is at its upper level as a whole still shows nothing: in groups of four that hides most of the dispersion.
        """
        if ((counts > 0) & (opposite > 0)).sum() > MIXED * (counts > 0).sum():
            return False
        seen = np.where((opposite > 0) & (counts == 0), self.design.sizes - opposite, counts)
        few = seen.sum() <= MOST * self.design.members.sum()
        return few and self.even_not_ordinary(seen, self.chance(seen), hidden="whole")

    def extends(self, shown: Cut, cut: Cut) -> bool:
        """Whether a few more hits than those shown, unsuspicious but too few for a test, are shown together with them."""
        if cut.hits > (1 + REMAINDER) * shown.hits:
            return False
        return self.chance_of(self.counts(cut, shown)) >= UNSUSPICIOUS and self.shows(cut, None)

    def is_merit(self, far: Cut, cut: Cut, shown: Cut | None) -> bool:
        """Whether a good part of what a cut holds lies farther out, is not shown, and follows the prompts by itself."""
        if not max(shown.hits if shown else 0, PART * cut.hits) < far.hits < cut.hits:
            return False
        counts = self.counts(far, shown)
        found, expected = dispersion.pairs(counts), self.chance(counts)
        return found > FACTOR * expected.mean and dispersion.overdispersion(found, expected) < EVIDENT

    def side(self, cut: Cut) -> Side:
        """The threshold with the dispersion of what lies beyond it."""
        return self.measured(cut.threshold, self.counts(cut, None))

    def measured(self, threshold: float, counts: np.ndarray) -> Side:
        """A side with this threshold and so many hits per group."""
        found, expected = dispersion.pairs(counts), self.chance(counts)
        ratio = found / expected.mean if expected.mean > 0 else float("nan")
        return Side(threshold, int(counts.sum()), ratio, dispersion.overdispersion(found, expected))
