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

from rovrl.robust.outliers.bulk import ROUNDING
from rovrl.robust.outliers.evidence import by_chance

COMMON, MEET = 0.6, 0.33
"""The share of the members of groups with contrast that the two levels must hold together, and the share of these groups that
must hold both: full marks of two kinds of prompts are no right and wrong, and crashes beside one level are contrast too."""
NEAR, OTHERS, LEVEL = 2.5, 1, 0.01
"""Up to so many steps from the two there may be so many other levels with this share of the members (and two of them): grades
have more, the mark of a crash is one, and spikes have none."""
SURE = 0.9
"""The probability that the rarer level follows the prompts, and that what lies elsewhere does not; nor may the latter be sure
to follow them slightly."""


def distance(groups: Sequence[Float[Tensor, "group n"]]) -> float:
    """The distance between the two levels of verdicts that are not alone; 0 of verdicts alone, or if the groups hold none.

    Scales with the unit. Gradient: none.
    """
    rows = [own.detach().double().cpu().numpy() for own in groups]
    levels = _levels([own[own.max(-1) > own.min(-1)] for own in rows])
    if levels is None:
        return 0.0
    sizes = np.concatenate([np.full(len(own), own.shape[-1]) for own in rows])
    rarer, commoner = (np.concatenate([(own == level).sum(-1) for own in rows]) for level in levels)
    elsewhere, none = sizes - rarer - commoner, np.zeros(len(sizes), int)
    told = (
        elsewhere.any()
        and by_chance(rarer, none, sizes, none, slight=False) < 1 - SURE
        and by_chance(elsewhere, none, sizes, none, slight=False) > SURE
        and by_chance(elsewhere, none, sizes, none) > 1 - SURE
    )
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
