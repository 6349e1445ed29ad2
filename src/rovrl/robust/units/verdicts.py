"""Whether a batch holds verdicts beside something else, and how far right is from wrong.

The two commonest values are wrong and right if they hold most responses, if they meet in many groups, and if the rarer one
follows the prompts. What lies elsewhere (the marks of crashes, spikes) is then no third grade if it does not follow them, which
would have been seen, and must not widen the scale of the verdicts. `parts` tells verdicts from other data sets.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from torch import Tensor

from rovrl.robust.outliers import dispersion
from rovrl.robust.outliers.bulk import ROUNDING
from rovrl.robust.outliers.dispersion import Design

COMMON, MEET = 0.6, 0.33
"""The share of the members of groups with contrast that the two levels must hold together, and the share of these groups that
must hold both: full marks of two kinds of prompts are no right and wrong, and crashes beside one level are contrast too."""
NEAR, OTHERS, LEVEL = 2.5, 1, 0.01
"""Up to so many steps from the two there may be so many other levels with this share of the members (and two of them): grades
have more, the mark of a crash is one, and spikes have none."""
FOLLOWS, ELSEWHERE, UNSEEN = 0.01, 0.05, 0.1
"""The chance of as many pairs in one group: the rarer level must have a smaller one, what lies elsewhere a larger one. The last
is the largest chance of as few pairs if what lies elsewhere followed the prompts as ordinary grades do: in a small batch a few
right answers beside marks for the format do not show it."""


def distance(groups: Sequence[Float[Tensor, "group n"]]) -> float:
    """The distance between the two levels of verdicts that are not alone; 0 of verdicts alone, or if the groups hold none.

    Scales with the unit. Gradient: none.
    """
    rows = [own.detach().double().cpu().numpy() for own in groups]
    levels = _levels([own[own.max(-1) > own.min(-1)] for own in rows])
    if levels is None:
        return 0.0
    sizes = np.concatenate([np.full(len(own), own.shape[-1]) for own in rows])
    design = Design(sizes, np.zeros(len(sizes), int))
    rarer, commoner = (np.concatenate([(own == level).sum(-1) for own in rows]).astype(float) for level in levels)
    elsewhere = sizes - rarer - commoner
    told = elsewhere.any() and _chances(rarer, design)[0] < FOLLOWS and _by_chance(elsewhere, design)
    return abs(levels[1] - levels[0]) if told else 0.0


def _levels(rows: Sequence[np.ndarray]) -> tuple[float, float] | None:
    """The rarer and the commoner of the two levels that groups with contrast share; None if they share none."""
    values, counts = np.unique(np.concatenate([np.zeros(0), *(own.ravel() for own in rows)]), return_counts=True)
    if len(values) < 2:
        return None
    rarer, commoner = np.argsort(counts, kind="stable")[-2:]
    low, high = sorted((float(values[rarer]), float(values[commoner])))
    with np.errstate(over="ignore"):  # at the end of the range of numbers
        step = high - low
        near = (values >= low - NEAR * step) & (values <= high + NEAR * step)
    grades = int((near & (counts >= max(2, LEVEL * counts.sum()))).sum()) - 2
    meet = sum(int(((own == low).any(-1) & (own == high).any(-1)).sum()) for own in rows)
    common = counts[rarer] + counts[commoner] >= COMMON * counts.sum() and meet >= MEET * sum(map(len, rows))
    rounding = ROUNDING * max(abs(low), abs(high))
    if not common or grades > OTHERS or not rounding < step < np.inf:
        return None
    return float(values[rarer]), float(values[commoner])


def _by_chance(counts: np.ndarray, design: Design) -> bool:
    """Whether the hits do not seem to follow the prompts, and would if they did as ordinary grades do."""
    more, fewer = _chances(counts, design)
    return more >= ELSEWHERE and fewer <= UNSEEN


def _chances(counts: np.ndarray, design: Design) -> tuple[float, float]:
    """How often chance makes as many pairs in one group, or more; and how often ordinary grades make as many, or fewer."""
    found, hits = dispersion.pairs(counts), design.by_stratum(counts)
    expected = dispersion.chance(hits, design)
    return dispersion.overdispersion(found, expected), dispersion.ordinary(found, expected, hits, design)
