"""The unit of units="robust", compiled when first needed."""

from __future__ import annotations

import math

import numpy as np

from rovrl.robust.kernels.jit import entry, vectorised

LARGEST_UNIT = 1e300  # as in rovrl.robust.soft.layout


@vectorised
def _mean(x, keep, share):
    """Σ x/n, divided first: a sum of large numbers must not overflow."""
    total = 0.0
    for i in range(x.size):
        if keep is None:
            total += x[i] * share
        else:
            total += x[i] * share if keep[i] else 0.0
    return total


@vectorised
def _deviation(x, keep, share, mean):
    total = 0.0
    for i in range(x.size):
        if keep is None:
            total += abs(x[i] * share - mean * share)
        else:
            total += abs(x[i] * share - mean * share) if keep[i] else 0.0
    return total


@entry
def unit_rows(x, keep, begin, place, sizes, edges, least, unit):
    """Fills unit with √(π/2)·(mean absolute deviation), its median over the blocks, at least `least` (units="robust")."""
    ordered = np.empty(sizes.shape[1])
    for row in range(begin.size):
        used = 0
        while used < sizes.shape[1] and sizes[row, used] > 0:
            i, j, n = edges[row, used], edges[row, used + 1], sizes[row, used]
            elements = x[begin[row] + i : begin[row] + j]
            if keep is None:
                deviation = _deviation(elements, None, 1.0 / n, _mean(elements, None, 1.0 / n))
            else:
                held = keep[place[row] + i : place[row] + j]
                deviation = _deviation(elements, held, 1.0 / n, _mean(elements, held, 1.0 / n))
            k = used
            while k > 0 and ordered[k - 1] > deviation:
                ordered[k] = ordered[k - 1]
                k -= 1
            ordered[k] = deviation
            used += 1
        unit[row] = least
        if used > 0:
            middle = math.sqrt(0.5 * math.pi) * (0.5 * ordered[(used - 1) // 2] + 0.5 * ordered[used // 2])
            middle = LARGEST_UNIT if middle > LARGEST_UNIT else middle
            unit[row] = least if middle < least else middle  # a NaN stays
