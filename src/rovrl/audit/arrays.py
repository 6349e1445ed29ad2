"""The kinds of arrays that the audit computes with, and how they are cut so that what is computed stays in the cache."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rovrl.errors import require

pa = require("pyarrow", extra="report")

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


def taken(column: Any, rows: NDArray[np.int64]) -> Any:
    """The entries of a column at `rows`: of a NumPy array, a list or a pyarrow array; None, no column, stays None."""
    if column is None or isinstance(column, np.ndarray):
        return None if column is None else column[rows]
    return [column[row] for row in rows] if isinstance(column, list) else column.take(index_array(rows))


# From and to pyarrow by buffers: `pyarrow.array`, `scalar` and `fill_null` import pandas first, which takes longer than a
# small audit does.


def text_array(texts: Iterable[str | None]) -> Any:
    """A large_string array; None is null. The texts hold no lone surrogates."""
    raw = [None if text is None else text.encode() for text in texts]
    known = np.array([value is not None for value in raw], dtype=bool)
    offsets = np.cumsum([0, *(len(value or b"") for value in raw)], dtype=np.int64)
    data = pa.py_buffer(b"".join(value or b"" for value in raw))
    valid = None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))
    return pa.Array.from_buffers(pa.large_string(), len(raw), [valid, pa.py_buffer(offsets), data])


def index_array(numbers: NDArray[np.int64]) -> Any:
    """An int64 array, to take rows by."""
    numbers = np.ascontiguousarray(numbers, dtype=np.int64)
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])


def numbers_of(column: Any) -> Array:
    """The values of a column of any number type as float64; null is NaN."""
    column = column.cast(pa.float64(), safe=False)
    values: Any = np.from_dlpack(column.fill_null(np.nan) if column.null_count else column)
    return values


def integers_of(column: Any) -> Counts:
    """The values of a column of whole numbers as int64; null is -1."""
    column = column.cast(pa.int64(), safe=False)
    values: Any = np.from_dlpack(column.fill_null(-1) if column.null_count else column)
    return values


def flags_of(column: Any) -> NDArray[np.bool_]:
    """The values of a bool column; null is False."""
    column = column.fill_null(False) if column.null_count else column
    return np.from_dlpack(column.cast(pa.uint8())).view(bool)
