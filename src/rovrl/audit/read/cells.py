"""Columns of a batch of rows, whatever file they came from: as numbers, as texts, as lists of numbers. Nothing raises."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrow import flags_of, integers_of, numbers_of, text_array
from rovrl.audit.read.numbering import Consecutive, Rows
from rovrl.errors import require

pa = require("pyarrow", extra="report")


class Batch(ABC):
    """Some rows: their numbers in the file, and columns by name in three forms: numbers, texts, lists of numbers."""

    def __init__(self, rows: Rows, names: list[str]) -> None:
        self.rows = rows
        self.names = names

    def __len__(self) -> int:
        return len(self.rows)

    @abstractmethod
    def numbers(self, name: str) -> NDArray[np.float64]:
        """The column as float64; what is not a number is NaN."""

    def integers(self, name: str) -> NDArray[np.int64] | None:
        """The column as whole numbers, exact up to 2^63; None if it holds anything else."""
        return None

    @abstractmethod
    def is_text(self, name: str) -> bool:
        """Whether the column is one of texts, whatever they say: an answer "42" is no score."""

    @abstractmethod
    def texts(self, name: str) -> Any:
        """The column as a pyarrow string array; what is not text is written as JSON."""

    def labels(self, name: str) -> Any:
        """The column as any pyarrow array that can be compared with itself, decodable or not: cheaper than texts."""
        return self.texts(name)

    @abstractmethod
    def lists(self, name: str) -> list[NDArray[np.float64] | None]:
        """The column as one array of numbers per row; None where there is no list of numbers."""


class ArrowBatch(Batch):
    """A batch of a Parquet file."""

    def __init__(self, start: int, batch: Any) -> None:
        super().__init__(Consecutive(start, start + batch.num_rows), batch.schema.names)
        self.batch = batch

    def _column(self, name: str) -> Any:
        """The first column of that name: a file may have several."""
        return self.batch.column(self.batch.schema.get_all_field_indices(name)[0])

    def numbers(self, name: str) -> NDArray[np.float64]:
        """See `Batch`."""
        column = _plain(self._column(name))
        kind = column.type
        if pa.types.is_floating(kind) or pa.types.is_integer(kind):
            return numbers_of(column)
        return np.array([as_number(value) for value in _python(column)], dtype=np.float64)

    def integers(self, name: str) -> NDArray[np.int64] | None:
        """See `Batch`."""
        column = _plain(self._column(name))
        if not pa.types.is_integer(column.type) or column.null_count:
            return None
        values = integers_of(column)
        wrapped = pa.types.is_uint64(column.type) and bool((values < 0).any())
        return None if wrapped else values

    def is_text(self, name: str) -> bool:
        """See `Batch`."""
        kind = _plain(self._column(name).slice(0, 0)).type
        return any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary))

    def texts(self, name: str) -> Any:
        """See `Batch`."""
        column = _plain(self._column(name))
        if pa.types.is_large_string(column.type) or pa.types.is_string(column.type):
            return decodable(column)
        return text_array(as_text(value) for value in _python(column))

    def labels(self, name: str) -> Any:
        """See `Batch`."""
        column = self._column(name)
        usable = (pa.types.is_integer, pa.types.is_dictionary, pa.types.is_string, pa.types.is_large_string)
        return column if any(kind(column.type) for kind in usable) else self.texts(name)

    def lists(self, name: str) -> list[NDArray[np.float64] | None]:
        """See `Batch`."""
        column = _plain(self._column(name))
        kind = column.type
        if (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and pa.types.is_floating(kind.value_type):
            flat, offsets = numbers_of(column.values), integers_of(column.offsets)
            valid = flags_of(column.is_valid())
            return [flat[a:z] if ok else None for a, z, ok in zip(offsets, offsets[1:], valid, strict=False)]
        return [as_numbers(value) for value in _python(column)]


class DictBatch(Batch):
    """A batch of rows that are Python dicts: of JSON lines or CSV."""

    def __init__(self, rows: list[int], values: list[dict[str, Any]]) -> None:
        names = list(dict.fromkeys(name for value in values for name in value if isinstance(name, str)))
        super().__init__(np.array(rows, dtype=np.int64), names)
        self.values = values

    def numbers(self, name: str) -> NDArray[np.float64]:
        """See `Batch`."""
        return np.array([as_number(value.get(name)) for value in self.values], dtype=np.float64)

    def integers(self, name: str) -> NDArray[np.int64] | None:
        """See `Batch`; a text of digits is a number: CSV has no others."""
        try:
            whole = [int(value[name]) for value in self.values if not isinstance(value[name], float)]
            return np.array(whole, dtype=np.int64) if len(whole) == len(self.values) else None
        except (KeyError, TypeError, ValueError, OverflowError):
            return None

    def is_text(self, name: str) -> bool:
        """See `Batch`."""
        known = [cell for value in self.values if (cell := value.get(name)) is not None]
        return bool(known) and all(isinstance(cell, str) for cell in known)

    def texts(self, name: str) -> Any:
        """See `Batch`."""
        return text_array(as_text(value.get(name)) for value in self.values)

    def lists(self, name: str) -> list[NDArray[np.float64] | None]:
        """See `Batch`."""
        return [as_numbers(value.get(name)) for value in self.values]


class CommaBatch(DictBatch):
    """A batch of CSV with semicolons, which are chosen where numbers have a decimal comma."""

    def numbers(self, name: str) -> NDArray[np.float64]:
        """See `Batch`."""
        return np.array([as_number(_pointed(value.get(name))) for value in self.values], dtype=np.float64)


def as_number(value: object) -> float:
    """`value` as a float; NaN for None and for what is not a number (a text of digits is one: CSV has no others)."""
    if isinstance(value, bool | int | float | str):
        try:
            return float(value)
        except (ValueError, OverflowError):
            return math.nan
    if isinstance(value, list) and len(value) == 1:
        return as_number(value[0])
    return as_number(float(value)) if _is_decimal(value) else math.nan  # pyright: ignore[reportArgumentType]


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
        column = _plain(column)
        wide = pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary()
        return text_array(
            None if raw is None else raw.decode("utf-8", "replace") for raw in column.cast(wide).to_pylist()
        )
    return column


def _pointed(value: object) -> object:
    """A text with one decimal comma as the same number with a point; anything else as it is."""
    if isinstance(value, str) and value.count(",") == 1:
        whole, part = value.split(",")
        return f"{whole.replace('.', '')}.{part}"  # points before it stand between thousands
    return value


def _plain(column: Any) -> Any:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _python(column: Any) -> Iterator[object]:
    for value in column:
        try:
            yield value.as_py()
        except (ValueError, OverflowError, UnicodeDecodeError):  # a text that is not UTF-8, a date out of range
            yield None


def _is_decimal(value: object) -> bool:
    return type(value).__module__ == "decimal"
