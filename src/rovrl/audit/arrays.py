"""The kinds of arrays that the audit computes with, and how they are cut so that what is computed stays in the cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

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


def ranked(values: Counts) -> tuple[Counts, Counts]:
    """The different values ascending, and the place of each entry among them; at once where they come in order, as steps do."""
    if (values[1:] >= values[:-1]).all():
        new = np.append(True, values[1:] != values[:-1])[: len(values)]
        return values[new], np.cumsum(new) - 1
    different, place = np.unique(values, return_inverse=True)
    return different, place


def first_by(keys: Sequence[NDArray[Any]], count: int) -> Counts:
    """Where the `count` smallest entries are, in their order: by the first key, of equals by the second, ... and by place.

    Few are sorted: each key sets those apart that are surely among the first, and the next decides about its ties.
    """
    sure, left = [], np.arange(len(keys[0]))
    for key in keys:
        need = count - sum(map(len, sure))
        if not 0 < need < len(left):
            break
        values = key[left]
        last = np.partition(values, need - 1)[need - 1]
        sure.append(left[values < last])
        left = left[values == last]
    chosen = np.sort(np.concatenate([*sure, left[: max(count - sum(map(len, sure)), 0)]]))
    return chosen[np.lexsort([key[chosen] for key in reversed(keys)])]


def joined(parts: list[Any], kind: Any) -> NDArray[Any]:
    """All parts in one array; a single one as it is."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.empty(0, dtype=kind)
