"""The kinds of arrays that the audit computes with, and how they are cut so that what is computed stays in the cache."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
NUMBERS, LEAST = 3 * 2**14, 64
"""Numbers computed at a time, and the fewest columns. Arrays that are much larger are new memory from the system each time,
which takes longer than to compute them."""


def pieces(columns: int, rows: int) -> Iterator[slice]:
    """All columns in pieces of about NUMBERS numbers."""
    wide = widest(columns, rows)
    return (slice(first, min(first + wide, columns)) for first in range(0, columns, wide))


def widest(columns: int, rows: int) -> int:
    """How many columns the largest piece has."""
    return max(min(columns, max(NUMBERS // rows, LEAST)), 1)
