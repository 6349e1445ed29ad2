"""How near to the center of its group a fault can be: what is nearer is a difference, or a grade."""

from __future__ import annotations

import numpy as np

from rovrl.robust.outliers import dispersion
from rovrl.robust.outliers.bulk import SortedGroups
from rovrl.robust.outliers.dispersion import Design

LEAST, LEAST_IN_SMALL = 4.0, 12.0
"""No reward nearer to its group's center than this many units is a fault; the second is for groups of fewer than eight."""
LEAST_OF_GRADES = 12.0
"""Nor is one of rewards without a continuous part that is nearer than this many steps: a failing grade far below the others is
a grade."""
LEAST_OF_VERDICTS, VERDICTS, FORMAT = 4.0, 1.05, 0.01
"""Where the bulk has two levels that follow the prompts (this many times the pairs that chance makes, which it does with less
than the last probability), they are the verdicts, and this many steps are enough: of 0, 0.1 and 1 the first two may be a
format, and 1 the rare right answer."""
LONGEST_SCALE, SPAN, OFF_SCALE = 100.5, 1.2, 0.2
"""Where more than two levels are in use, nor is one within a scale of a hundred steps. It is no scale if the responses of a
group span 1.2 times as much, or if more than the last share of what is far lies between the levels."""
LAYERED = 8
"""If groups are smaller on average, only what lies beyond the farthest gap can be shown: a few responses show no layers."""


def least_distance(
    groups: SortedGroups, residual: np.ndarray, unit: float, design: Design, *, both: bool = False
) -> float:
    """The distance up to which nothing is a fault, on the positive side or on both."""
    least = unit * (LEAST if design.mean_size >= LAYERED else LEAST_IN_SMALL)
    if not groups.graded or groups.step == 0:
        return least
    if _verdicts(groups, residual, design):
        return max(least, LEAST_OF_VERDICTS * groups.step)
    far = np.abs(residual) if both else residual
    steps = LONGEST_SCALE if _long_scale(groups, residual, far) else LEAST_OF_GRADES
    return max(least, steps * groups.step)


def _verdicts(groups: SortedGroups, residual: np.ndarray, design: Design) -> bool:
    """Whether what lies within a few steps of the centers is two levels that follow the prompts.

    The center of a group is at one of them; the members at the other, a minority, are more dispersed than chance makes them.
    """
    with np.errstate(over="ignore"):  # at the end of the range of numbers
        size = np.abs(residual) / groups.step
    near = size < LEAST_OF_VERDICTS
    if (near & (size > 1.5)).any():
        return False
    other_level = near & (size > 0.5) & groups.of_members(design.sizes > 0)
    return dispersion.evident(groups.count(other_level).astype(float), design, VERDICTS, FORMAT)


def _long_scale(groups: SortedGroups, residual: np.ndarray, far: np.ndarray) -> bool:
    """Whether grades that are far apart can be grades of one scale; `far`: the distances in question."""
    with np.errstate(over="ignore"):  # at the end of the range of numbers
        size = np.abs(residual) / groups.step
    more_than_two = bool(((size > 1.5) & (size <= LEAST_OF_GRADES)).any())
    span = groups.span(np.where(size <= LONGEST_SCALE, residual, 0.0))
    far = far[far > LEAST_OF_GRADES * groups.step]
    return more_than_two and span <= SPAN * LONGEST_SCALE * groups.step and groups.off_scale(far) <= OFF_SCALE
