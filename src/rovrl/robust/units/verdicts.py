"""Whether a batch holds verdicts, and how far right is from wrong: two values in group after group, whatever else there is.

Verdicts need no estimate of their spread. Two commonest values that hold most responses, of which the rarer follows the
prompts, are wrong and right; what lies elsewhere and does not follow the prompts (the marks of crashes, spikes) is no third
grade, and must not widen the scale of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float
from torch import Tensor

from rovrl.robust.outliers import dispersion
from rovrl.robust.outliers.dispersion import Design

COMMON = 0.6
"""The share of the members of groups with contrast that the two levels must hold together."""
NEAR, OTHERS, LEVEL = 2.5, 1, 0.01
"""Up to so many steps from the two there may be so many other levels with this share of the members (and two of them): grades
have more, the mark of a crash is one, and spikes have none."""
FOLLOWS, ELSEWHERE = 0.01, 0.05
"""The chance of as many pairs in one group: the rarer level must have a smaller one, what lies elsewhere a larger one."""


def distance(groups: Sequence[Float[Tensor, "group n"]]) -> float:
    """The distance between the two levels of verdicts; 0 if the groups hold none. Scales with the unit. Gradient: none."""
    rows = [own.detach().double().cpu().numpy() for own in groups]
    members = [own[own.max(-1) > own.min(-1)].ravel() for own in rows]
    values, counts = np.unique(np.concatenate([np.zeros(0), *members]), return_counts=True)
    if len(values) < 2:
        return 0.0
    rarer, commoner = np.argsort(counts, kind="stable")[-2:]
    if counts[rarer] + counts[commoner] < COMMON * counts.sum():
        return 0.0
    low, high = sorted((float(values[rarer]), float(values[commoner])))
    with np.errstate(over="ignore"):  # at the end of the range of numbers
        step = high - low
        near = (values >= low - NEAR * step) & (values <= high + NEAR * step)
    levels = near & (counts >= max(2, LEVEL * counts.sum()))
    if not np.isfinite(step) or levels.sum() > 2 + OTHERS:
        return 0.0
    design = _design(rows)
    follow = _chance(rows, design, lambda own: own == values[rarer]) < FOLLOWS
    return step if follow and _chance(rows, design, lambda own: (own != low) & (own != high)) >= ELSEWHERE else 0.0


def _design(rows: Sequence[np.ndarray]) -> Design:
    sizes = np.concatenate([np.full(len(own), own.shape[-1]) for own in rows])
    return Design(sizes, np.zeros(len(sizes), int))


def _chance(rows: Sequence[np.ndarray], design: Design, hit: Callable[[np.ndarray], np.ndarray]) -> float:
    """How often chance makes as many pairs of hits in one group, or more; 1 without hits."""
    counts = np.concatenate([hit(own).sum(-1) for own in rows]).astype(float)
    expected = dispersion.chance(design.by_stratum(counts), design)
    return dispersion.overdispersion(dispersion.pairs(counts), expected)
