"""Columns of a batch of rows, whatever file they came from: as numbers, as texts, as lists of numbers. Nothing raises."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import flags_of, integers_of, numbers_of, text_array
from rovrl.errors import require

pa = require("pyarrow", extra="report")


class Batch(ABC):
    """Some rows: their numbers in the file, and columns by name in three forms: numbers, texts, lists of numbers."""

    def __init__(self, rows: NDArray[np.int64], names: list[str]) -> None:
        self.rows = rows
        self.names = names

    def __len__(self) -> int:
        return len(self.rows)

    @abstractmethod
    def cells(self, name: str) -> Iterable[Any]:
        """The column as Python values; None for what cannot be read as one."""

    @abstractmethod
    def is_text(self, name: str) -> bool:
        """Whether the column is one of texts, whatever they say: an answer "42" is no score."""

    def numbers(self, name: str) -> NDArray[np.float64]:
        """The column as float64; what is not a number is NaN, and so is all of a column that is not there."""
        if name not in self.names:
            return np.full(len(self), np.nan)
        return np.array([as_number(cell) for cell in self.cells(name)], dtype=np.float64)

    def integers(self, name: str) -> NDArray[np.int64] | None:
        """The column as whole numbers, exact up to 2^63; None if it holds anything else. A text of digits is a number."""
        try:
            whole = [int(cell) for cell in self.cells(name) if not isinstance(cell, float)]
            return np.array(whole, dtype=np.int64) if len(whole) == len(self) else None
        except (TypeError, ValueError, OverflowError):
            return None

    def texts(self, name: str) -> Any:
        """The column as a pyarrow string array; what is not text is written as JSON."""
        return text_array(as_text(cell) for cell in self.cells(name))

    def labels(self, name: str) -> Any:
        """The column as any pyarrow array that can be compared with itself, decodable or not: cheaper than texts."""
        return self.texts(name)

    def lists(self, name: str) -> list[NDArray[np.float64] | None]:
        """The column as one array of numbers per row; None where there is no list of numbers."""
        return [as_numbers(cell) for cell in self.cells(name)]


class ArrowBatch(Batch):
    """A batch of a Parquet file: what pyarrow has a type for never becomes Python values."""

    def __init__(self, start: int, batch: Any) -> None:
        super().__init__(np.arange(start, start + batch.num_rows), batch.schema.names)
        self.batch = batch

    def column(self, name: str) -> Any:
        """The first column of that name, as it is stored: a file may have several."""
        return self.batch.column(self.batch.schema.get_all_field_indices(name)[0])

    def cells(self, name: str) -> Iterable[Any]:
        """See `Batch`."""
        return map(_python, self.column(name))

    def is_text(self, name: str) -> bool:
        """See `Batch`."""
        kind = plain(self.column(name).slice(0, 0)).type
        return any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary))

    def numbers(self, name: str) -> NDArray[np.float64]:
        """See `Batch`."""
        column = plain(self.column(name)) if name in self.names else None
        stored = column is not None and (pa.types.is_floating(column.type) or pa.types.is_integer(column.type))
        return numbers_of(column) if stored else super().numbers(name)

    def integers(self, name: str) -> NDArray[np.int64] | None:
        """See `Batch`; a number of eight bytes without a sign may be larger than 2^63."""
        column = plain(self.column(name))
        if not pa.types.is_integer(column.type) or column.null_count:
            return None
        values = integers_of(column)
        return None if pa.types.is_uint64(column.type) and (values < 0).any() else values

    def texts(self, name: str) -> Any:
        """See `Batch`."""
        column = plain(self.column(name))
        text = pa.types.is_large_string(column.type) or pa.types.is_string(column.type)
        return decodable(column) if text else super().texts(name)

    def labels(self, name: str) -> Any:
        """See `Batch`."""
        column = self.column(name)
        usable = (pa.types.is_integer, pa.types.is_dictionary, pa.types.is_string, pa.types.is_large_string)
        return column if any(kind(column.type) for kind in usable) else self.texts(name)

    def lists(self, name: str) -> list[NDArray[np.float64] | None]:
        """See `Batch`."""
        column = plain(self.column(name))
        kind = column.type
        if not ((pa.types.is_list(kind) or pa.types.is_large_list(kind)) and pa.types.is_floating(kind.value_type)):
            return super().lists(name)
        flat, offsets = numbers_of(column.values), integers_of(column.offsets)
        valid = flags_of(column.is_valid())
        return [flat[a:z] if ok else None for a, z, ok in zip(offsets, offsets[1:], valid, strict=False)]


class DictBatch(Batch):
    """A batch of rows that are Python dicts: of JSON lines or CSV."""

    def __init__(self, rows: list[int], values: list[dict[str, Any]], commas: bool = False) -> None:
        names = list(dict.fromkeys(name for value in values for name in value if isinstance(name, str)))
        super().__init__(np.array(rows, dtype=np.int64), names)
        self.values = values
        self.commas = commas
        """Numbers have a decimal comma: CSV whose cells end with semicolons."""

    def cells(self, name: str) -> list[Any]:
        """See `Batch`."""
        return [value.get(name) for value in self.values]

    def is_text(self, name: str) -> bool:
        """See `Batch`."""
        known = [cell for cell in self.cells(name) if cell is not None]
        return bool(known) and all(isinstance(cell, str) for cell in known)

    def numbers(self, name: str) -> NDArray[np.float64]:
        """See `Batch`."""
        if not self.commas:
            return super().numbers(name)
        return np.array([as_number(_pointed(cell)) for cell in self.cells(name)], dtype=np.float64)


def as_number(value: object) -> float:
    """`value` as a float; NaN for None and for what is not a number (a text of digits is one: CSV has no others)."""
    if isinstance(value, bool | int | float | str):
        try:
            return float(value)
        except (ValueError, OverflowError):
            return math.nan
    if isinstance(value, list) and len(value) == 1:
        return as_number(value[0])
    return float(value) if isinstance(value, Decimal) else math.nan


def as_text(value: object) -> str | None:
    """`value` as text: itself, a chat as its contents by role, anything else as JSON; None stays None."""
    if value is None:
        return None
    if isinstance(value, str):
        text = value
    elif isinstance(value, list) and value and all(isinstance(m, dict) and "content" in m for m in value):
        text = "\n".join(f"[{m.get('role', '?')}] {as_text(m['content']) or ''}" for m in value)
    else:
        text = json.dumps(value, ensure_ascii=False, default=str)
    return text.encode("utf-8", "replace").decode("utf-8")  # lone surrogates of JSON escapes are not text


def as_numbers(value: object) -> NDArray[np.float64] | None:
    """`value` as an array of numbers, or None; a text is read as a JSON list (CSV has no other)."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    if not isinstance(value, list):
        return None
    return np.array([as_number(item) for item in value], dtype=np.float64)


def decodable(column: Any) -> Any:
    """A column as it is if its texts are UTF-8, as Parquet promises; what is not becomes U+FFFD."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        column = plain(column)
        wide = pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary()
        raw = column.cast(wide).to_pylist()
        return text_array(None if text is None else text.decode("utf-8", "replace") for text in raw)
    return column


def plain(column: Any) -> Any:
    """A column with every value written out, where the file keeps equal ones once."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _pointed(value: object) -> object:
    """A text with one decimal comma as the same number with a point; anything else as it is."""
    if isinstance(value, str) and value.count(",") == 1:
        whole, part = value.split(",")
        return f"{whole.replace('.', '')}.{part}"  # points before it stand between thousands
    return value


def _python(cell: Any) -> object:
    try:
        return cell.as_py()
    except (ValueError, OverflowError, UnicodeDecodeError):  # a text that is not UTF-8, a date out of range
        return None
