"""What lies far on one side of the groups' centers, and what can be said of it: spread by chance, or along with the prompts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from rovrl.faults.nearest import LAYERED
from rovrl.robust.outliers import dispersion
from rovrl.robust.outliers.bulk import SortedGroups
from rovrl.robust.outliers.dispersion import Design
from rovrl.robust.outliers.gaps import Cut

ERROR = 0.05
"""The declared error rate of one call, shared by all its tests (a quarter for each side, half for both together) and their
thresholds: the chance that verdicts dispersed like ordinary ones are taken for faults."""
MISSED = 0.03
"""Likewise the chance that faults are found dispersed, and kept."""
MOST = 0.5
"""At most this share of all responses can be faults on one side."""
NEGLIGIBLE, MISPLACED = 0.15, 0.1
"""An excess of this share of the expected pairs is not dispersion, however significant: some centers are misplaced. Those show
on the other side; with fewer opposite hits than the second share of all, correspondingly less is excused."""
SLIGHT, PAIRED = 0.35, 0.5
"""Verdicts that hardly differ from prompt to prompt have this share of the ordinary correlation: 0.05 (less for rare ones), as
where prompts were chosen for their difficulty. Hits are told from these unless opposite ones are at least the second share of
them: right answers may stand beside a few failures."""
REMOTE = 100.0
"""In units of the bulk, how far right answers may lie from the others: hits beyond are told from ordinary verdicts only."""
LIKE, USUAL = 1.6, 0.95
"""Opposite hits are of one kind up to this many times the distance that this share of the hits does not exceed: a few of them
may belong to groups whose center is a fault."""
REMAINDER, UNSUSPICIOUS = 0.4, 0.05
"""Hits up to this share of the faults shown before may lack power of their own, if their p-value is above the second number."""
MEETINGS, MET, MET_IN_SMALL, TOO_FEW = 6, 0.5, 0.7, 0.15
"""Where this many meetings of opposite hits in one group are expected by chance, half of them show that both sides mix. Right
and wrong answers beside some faults make half as well in groups of fewer than eight: there it takes the second share of them,
or as few as chance makes with at least the last number as probability."""
PART, FACTOR = 0.25, 1.5
"""What is at least this share of a cut's hits is merit if its pairs are evidently more than chance makes, and this many times
more."""
LAYER, APART = 0.15, 1.4
"""The same holds for layers of at least the first share among a cut's hits, with nothing between them up to this ratio. Groups
of fewer than eight show less: there it holds as soon as a layer looks suspicious."""
MIXED = 0.05
"""The share of groups with hits on both sides up to which a side can be seen as one of two levels."""


def ordinary_share(above: np.ndarray, below: np.ndarray) -> float:
    """The share of the ordinary correlation that hits on two sides must be told from: right answers lie on one of them."""
    few, many = sorted((float(above.sum()), float(below.sum())))
    return 1.0 if few >= PAIRED * many else SLIGHT


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


def not_exceeded(distance: np.ndarray) -> float:
    """The distance that 95 % do not exceed: one of them, or 0 without any. (np.quantile takes ten times as long.)"""
    k = int(USUAL * (len(distance) - 1))
    return float(np.partition(distance, k)[k]) if len(distance) else 0.0


@dataclass(frozen=True)
class Candidates:
    """The values beyond the least distance on one side, with the error rate that each cut among them may have."""

    groups: SortedGroups
    residual: np.ndarray
    design: Design
    distance: np.ndarray
    """How far out each candidate is."""
    group: np.ndarray
    """Its group."""
    level: float
    remote: float
    """The distance beyond which they are too far out for right answers beside a small continuous part."""

    def counts(self, cut: Cut, beyond: Cut | None) -> np.ndarray:
        """How many of the candidates from the cut on, and not `beyond` another one, belong to each group."""
        chosen = self.distance >= cut.at
        if beyond:
            chosen &= self.distance < beyond.at
        return self.count(chosen)

    def count(self, chosen: np.ndarray) -> np.ndarray:
        """How many of the chosen candidates belong to each group."""
        return np.bincount(self.group[chosen], minlength=len(self.groups.size)).astype(float)

    def shows(self, cut: Cut, beyond: Cut | None) -> bool:
        """Whether the candidates from the cut to the one beyond are faults: evenly spread, and not merely for lack of power.

        On one side alone hits may as well be right answers, so they are told even from verdicts that hardly differ from prompt
        to prompt; if they are remote, or opposite ones are about as many, and meet them if they are enough to, from ordinary
        verdicts.
        """
        counts = self.counts(cut, beyond)
        expected = self.chance(counts)
        opposite = cache(lambda: self.opposite(cut, beyond))
        if not self.even_not_ordinary(counts, expected, opposite=opposite):
            return False
        remote = cut.at > self.remote
        paired = remote or opposite().sum() >= PAIRED * counts.sum()
        if self.meets(counts, opposite()):
            return paired or self.even_not_ordinary(counts, expected, opposite=opposite, share=SLIGHT)
        share = 1.0 if paired and self.meetings(counts, opposite()) < MEETINGS else SLIGHT
        if self.even_not_ordinary(counts, expected, opposite=opposite, hidden="majorities", share=share):
            return True
        return self.two_levels(counts, opposite(), 1.0 if remote else SLIGHT)

    def even_not_ordinary(
        self,
        counts: np.ndarray,
        expected: dispersion.Moments,
        *,
        opposite: Callable[[], np.ndarray] | None = None,
        hidden: str = "none",
        share: float = 1.0,
    ) -> bool:
        """Whether the counts vary no more than chance allows (`expected`: its moments), and less than ordinary verdicts.

        Or, given a `share`, than verdicts that depend on the prompt by so much of it. A negligible excess is excused; given the
        `opposite` hits, only as far as they show that centers are misplaced.
        """
        found = dispersion.pairs(counts)
        if dispersion.overdispersion(found, expected) < self.level * MISSED / ERROR:
            misplaced = float(opposite().sum()) / max(MISPLACED * float(counts.sum()), 1.0) if opposite else 1.0
            if found - expected.mean > NEGLIGIBLE * min(1.0, misplaced) * expected.mean:
                return False
        hits = self.design.by_stratum(counts)
        return dispersion.ordinary(found, expected, hits, self.design, hidden=hidden, share=share) <= self.level

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
            farthest = LIKE * max(not_exceeded(self.distance[mine & (self.distance >= cut.at)]), cut.at)
        farthest = min(farthest, beyond.at) if beyond else farthest
        far = (self.residual < -cut.at * (1 - 1e-3)) & (self.residual >= -farthest)
        return self.groups.count(far & self.groups.of_members(self.design.sizes > 0)).astype(float)

    def meets(self, counts: np.ndarray, opposite: np.ndarray) -> bool:
        """Whether opposite hits share groups as often as by chance. Right and wrong answers do not: the center is one of them.

        So this replaces the power that counts lack because more than half of a group cannot be seen.
        """
        found, expected = float((counts * opposite).sum()), self.meetings(counts, opposite)
        if expected < MEETINGS or found < MET * expected:
            return False
        if self.design.mean_size >= LAYERED or found >= MET_IN_SMALL * expected:
            return True
        return 1 - dispersion.gamma_share(found + 1, expected) >= TOO_FEW

    def meetings(self, counts: np.ndarray, opposite: np.ndarray) -> float:
        """How often opposite hits share a group by chance."""
        design = self.design
        expected = 2 * design.edges * design.by_stratum(counts) * design.by_stratum(opposite)
        return float((expected / np.maximum(design.members * (design.members - 1), 1)).sum())

    def two_levels(self, counts: np.ndarray, opposite: np.ndarray, share: float) -> bool:
        """The same test with every group seen from its lower level: where that has hits below, the center itself is a hit.

        A group that is at its upper level as a whole still shows nothing: in groups of four that hides most of the dispersion.
        """
        if ((counts > 0) & (opposite > 0)).sum() > MIXED * (counts > 0).sum():
            return False
        seen = np.where((opposite > 0) & (counts == 0), self.design.sizes - opposite, counts)
        few = seen.sum() <= MOST * self.design.members.sum()
        return few and self.even_not_ordinary(seen, self.chance(seen), hidden="whole", share=share)

    def extends(self, shown: Cut, cut: Cut) -> bool:
        """Whether a few more hits than those shown, unsuspicious but too few for a test, are shown together with them."""
        if cut.hits > (1 + REMAINDER) * shown.hits:
            return False
        return self.chance_of(self.counts(cut, shown)) >= UNSUSPICIOUS and self.shows(cut, None)

    def is_merit(self, far: Cut, cut: Cut, shown: Cut | None) -> bool:
        """Whether a good part of what a cut holds lies farther out, is not shown, and follows the prompts by itself."""
        if not max(shown.hits if shown else 0, PART * cut.hits) < far.hits < cut.hits:
            return False
        return dispersion.evident(self.counts(far, shown), self.design, FACTOR)

    def holds_merit(self, cut: Cut, shown: Cut | None) -> bool:
        """Whether one of the layers between a cut and what is shown follows the prompts by itself."""
        chosen = (self.distance >= cut.at) & (self.distance < (shown.at if shown else np.inf))
        distance = np.sort(self.distance[chosen])
        edges = np.flatnonzero(distance[1:] / APART > distance[:-1]) + 1
        if not len(edges):
            return False
        ends = [*distance[edges].tolist(), np.inf]
        sizes = np.diff(np.concatenate([[0], edges, [len(distance)]])).tolist()
        layers = zip([cut.at, *ends[:-1]], ends, sizes, strict=True)
        counts = (
            self.count(chosen & (self.distance >= low) & (self.distance < high))
            for low, high, size in layers
            if size >= LAYER * len(distance)
        )
        error = dispersion.EVIDENT if self.design.mean_size >= LAYERED else UNSUSPICIOUS
        return any(dispersion.evident(layer, self.design, FACTOR, error) for layer in counts)

    def side(self, cut: Cut) -> Side:
        """The threshold with the dispersion of what lies beyond it."""
        return self.measured(cut.threshold, self.counts(cut, None))

    def measured(self, threshold: float, counts: np.ndarray) -> Side:
        """A side with this threshold and so many hits per group."""
        found, expected = dispersion.pairs(counts), self.chance(counts)
        ratio = found / expected.mean if expected.mean > 0 else float("nan")
        return Side(threshold, int(counts.sum()), ratio, dispersion.overdispersion(found, expected))
