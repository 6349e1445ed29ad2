"""pyarrow arrays from and to NumPy by their buffers: `pyarrow.array` and `to_numpy` import pandas first, which takes longer
than a small audit does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rovrl.errors import require

pa = require("pyarrow", extra="report")


def text_array(texts: Iterable[str | None]) -> Any:
    """A large_string array; None is null. The texts hold no lone surrogates."""
    raw = [None if text is None else text.encode() for text in texts]
    known = np.array([value is not None for value in raw], dtype=bool)
    ends = np.cumsum([len(value or b"") for value in raw], dtype=np.int64)
    offsets = np.concatenate([np.zeros(1, np.int64), ends])
    data = pa.py_buffer(b"".join(value or b"" for value in raw))
    valid = None if known.all() else _bits(known)
    return pa.Array.from_buffers(pa.large_string(), len(raw), [valid, pa.py_buffer(offsets), data])


def index_array(numbers: NDArray[np.int64]) -> Any:
    """An int64 array, to take rows by."""
    numbers = np.ascontiguousarray(numbers, dtype=np.int64)
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])


def flag_array(flags: NDArray[np.bool_]) -> Any:
    """A bool array, to filter rows by."""
    return pa.Array.from_buffers(pa.bool_(), len(flags), [None, _bits(flags)])


def numbers_of(column: Any) -> NDArray[np.float64]:
    """The values of a column of any number type as float64; null is NaN."""
    column = column.cast(pa.float64(), safe=False)
    values = _values(column, np.float64)
    if column.null_count:
        values = np.where(flags_of(column.is_valid()), values, np.nan)
    return values


def integers_of(column: Any) -> NDArray[np.int64]:
    """The values of a column of whole numbers without nulls as int64."""
    return _values(column.cast(pa.int64(), safe=False), np.int64)


def flags_of(column: Any) -> NDArray[np.bool_]:
    """The values of a bool column without nulls."""
    if not len(column):
        return np.zeros(0, dtype=bool)
    bits = np.unpackbits(np.frombuffer(column.buffers()[1], np.uint8), bitorder="little")
    return bits[column.offset : column.offset + len(column)].view(bool)


def _values(column: Any, kind: type[Any]) -> NDArray[Any]:
    """A view on a fixed-width column, whatever stands where it is null."""
    if not len(column):
        return np.zeros(0, dtype=kind)
    return np.frombuffer(column.buffers()[1], kind)[column.offset : column.offset + len(column)]


def _bits(flags: NDArray[np.bool_]) -> Any:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))
