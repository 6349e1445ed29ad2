"""Bounded credit of many short rows, compiled (eq:credit_advantage)."""

from __future__ import annotations

import math

from rovrl.robust.kernels.jit import entry, vectorised

FAR = 1e60  # as in lanes.py


@vectorised
def _bounded(x, center, bound, out):
    """out = bound·r/√(1 + r²), r = (x - center)/bound; returns the largest magnitude."""
    largest = 0.0
    for i in range(x.size):
        r = (x[i] - center) / bound
        r = FAR if r > FAR else r
        r = -FAR if r < -FAR else r
        out[i] = bound * (r / math.sqrt(1.0 + r * r))
    for i in range(x.size):
        largest = abs(out[i]) if abs(out[i]) > largest else largest
    return largest


@entry
def bounded_rows(x, center, bound, floor, out, scale):
    """Fills out[row] with χ(x - center)/scale, χ bounded by `bound`, and scale[row] with √(floor² + mean χ²).

    Squares are taken relative to the largest (or to 1), so that none overflows.
    """
    for row in range(x.shape[0]):
        shaped = out[row]
        largest = _bounded(x[row], center[row], bound, shaped)
        total = 0.0
        if largest > 1.0:
            for value in shaped:
                total += value / largest * (value / largest)
        else:  # nothing can overflow, and a division by 1 changes nothing
            largest = 1.0
            for value in shaped:
                total += value * value
        divisor = largest * math.sqrt(total / shaped.size + floor / largest * (floor / largest))
        scale[row] = divisor
        for j in range(shaped.size):
            shaped[j] /= divisor
