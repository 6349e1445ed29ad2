"""The evidence on one side: the lowest threshold beyond which rewards are shown to be faults."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rovrl.faults.candidates import (
    ERROR,
    LIKE,
    MOST,
    REMOTE,
    UNSUSPICIOUS,
    Candidates,
    Side,
    not_exceeded,
    ordinary_share,
)
from rovrl.faults.nearest import LAYERED, least_distance
from rovrl.robust.outliers.bulk import SortedGroups
from rovrl.robust.outliers.dispersion import Design
from rovrl.robust.outliers.gaps import WIDTHS, Cut, cuts

SMALLEST = 4
"""Smaller groups do not count as evidence: their center follows a single hit."""


def search(groups: SortedGroups, residual: np.ndarray, unit: float, design: Design) -> Side:
    """The lowest threshold that is shown, from the farthest gap inwards; `residual` is positive on this side.

    What lies between a threshold that is shown and the next has to be shown by itself: many faults would hide some merit. And
    nothing is shown together with a layer farther out that follows the prompts by itself.
    """
    least = least_distance(groups, residual, unit, design)
    evidence, found = _evidence(groups, residual, unit, least, design, ERROR / 4)
    shown: Cut | None = None
    for cut in found if design.mean_size >= LAYERED else found[:1]:
        if (evidence.shows(cut, shown) or (shown and evidence.extends(shown, cut))) and not (
            any(evidence.is_merit(far, cut, shown) for far in found) or evidence.holds_merit(cut, shown)
        ):
            shown = cut
    return evidence.side(shown) if shown else Side()


def search_together(groups: SortedGroups, residual: np.ndarray, unit: float, design: Design) -> tuple[Side, Side]:
    """What is shown above and below by the hits of both sides together, for batches too small to show it for each.

    Hits on both sides have twice the number. They have to meet in the same groups as often as chance makes them, and neither
    side may look dispersed by itself: of several levels of merit the middle one has others on both sides.
    """
    least = least_distance(groups, residual, unit, design, both=True)
    evidence, found = _evidence(groups, np.abs(residual), unit, least, design, ERROR / 2)
    for cut in found if design.mean_size >= LAYERED else found[:1]:
        far = (evidence.residual >= cut.at) & groups.of_members(design.sizes > 0)
        up, down = (groups.count(far & (sign * residual > 0)).astype(float) for sign in (1, -1))
        both = up + down
        unsuspicious = all(evidence.chance_of(counts) >= UNSUSPICIOUS for counts in (up, down, both))
        alike = _alike(groups, residual, far)
        share = ordinary_share(up, down)
        even = unsuspicious and evidence.even_not_ordinary(both, evidence.chance(both), share=share)
        if even and evidence.meets(*alike):
            return evidence.measured(cut.threshold, up), evidence.measured(cut.threshold, down)
    return Side(), Side()


def layers(
    groups: SortedGroups, residual: np.ndarray, unit: float, design: Design
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(distances, hits per group, opposite hits per group) beyond each gap on the positive side, the nearest gap first."""
    least = least_distance(groups, residual, unit, design)
    evidence, found = _evidence(groups, residual, unit, least, design, ERROR)
    for cut in reversed(found):
        distance = evidence.distance[evidence.distance >= cut.at]
        yield distance, evidence.counts(cut, None), evidence.opposite(cut, None)


def _alike(groups: SortedGroups, residual: np.ndarray, far: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Hits per group above and below, without those far beyond anything on the other side: they are of another kind."""
    sides = far & (residual > 0), far & (residual < 0)
    end = LIKE * min(not_exceeded(np.abs(residual[side])) for side in sides)
    above, below = (groups.count(side & (np.abs(residual) <= end)).astype(float) for side in sides)
    return above, below


def _evidence(
    groups: SortedGroups, residual: np.ndarray, unit: float, least: float, design: Design, error: float
) -> tuple[Candidates, list[Cut]]:
    """The hits beyond `least` on the positive side of the residuals, and the cuts among them that share the error rate."""
    used = residual if design.sizes.all() else np.where(groups.of_members(design.sizes > 0), residual, 0.0)
    far = np.flatnonzero(used > least)
    distance, found = residual[far], []
    if len(far):
        nearer = used[(used > least / WIDTHS[-1]) & (used <= least)]
        found = cuts(np.sort(distance)[::-1], least, MOST * float(design.members.sum()), nearer=nearer)
    level, remote = error / max(len(found), 1), max(REMOTE * unit, least)
    return Candidates(groups, residual, design, distance, groups.group[far], level, remote), found
