"""Rows out of Parquet, JSON lines and CSV, in batches; damage becomes a note, never an exception.

Nothing here executes what it reads: no pickle, no eval, no format that can hold code.
"""

from __future__ import annotations

import codecs
import csv
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.rows import Notes
from rovrl.errors import RovrlError, require

pa = require("pyarrow", extra="report")
pc = require("pyarrow.compute", extra="report")
pq = require("pyarrow.parquet", extra="report")

BATCH_ROWS = 131_072
LINE_LIMIT = 256 * 2**20
"""Bytes of one line of text; a longer one is no row."""
FIELD_LIMIT = 2**28
REFUSED = {".pkl", ".pickle", ".pt", ".pth", ".bin", ".npy", ".npz", ".joblib", ".ckpt"}


class Batch:
    """Some rows: their numbers in the file, and columns by name in three forms: numbers, texts, lists of numbers."""

    def __init__(self, rows: NDArray[np.int64], names: list[str]) -> None:
        self.rows = rows
        self.names = names

    def __len__(self) -> int:
        return len(self.rows)

    def numbers(self, name: str) -> NDArray[np.float64]:
        """The column as float64; what is no number is NaN."""
        raise NotImplementedError

    def texts(self, name: str) -> Any:
        """The column as a pyarrow string array; what is no text is written as JSON."""
        raise NotImplementedError

    def labels(self, name: str) -> Any:
        """The column as any pyarrow array that can be compared with itself: cheaper than texts."""
        return self.texts(name)

    def lists(self, name: str) -> list[NDArray[np.float64] | None]:
        """The column as one array of numbers per row; None where there is no list of numbers."""
        raise NotImplementedError


class ArrowBatch(Batch):
    """A batch of a Parquet file."""

    def __init__(self, start: int, batch: Any) -> None:
        super().__init__(np.arange(start, start + batch.num_rows), batch.schema.names)
        self.batch = batch

    def numbers(self, name: str) -> NDArray[np.float64]:
        """See `Batch`."""
        column = _plain(self.batch.column(name))
        kind = column.type
        if pa.types.is_floating(kind) or pa.types.is_integer(kind):
            return column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        return np.array([as_number(value) for value in _python(column)], dtype=np.float64)

    def texts(self, name: str) -> Any:
        """See `Batch`."""
        column = _plain(self.batch.column(name))
        if pa.types.is_large_string(column.type) or pa.types.is_string(column.type):
            return _decodable(column)
        return pa.array([as_text(value) for value in _python(column)], type=pa.large_string())

    def labels(self, name: str) -> Any:
        """See `Batch`."""
        column = self.batch.column(name)
        if pa.types.is_integer(column.type) or pa.types.is_dictionary(column.type):
            return column
        return self.texts(name)

    def lists(self, name: str) -> list[NDArray[np.float64] | None]:
        """See `Batch`."""
        column = _plain(self.batch.column(name))
        kind = column.type
        if (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and pa.types.is_floating(kind.value_type):
            flat = column.values.cast(pa.float64()).to_numpy(zero_copy_only=False)
            offsets = column.offsets.to_numpy()
            valid = column.is_valid().to_numpy(zero_copy_only=False)
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

    def texts(self, name: str) -> Any:
        """See `Batch`."""
        return pa.array([as_text(value.get(name)) for value in self.values], type=pa.large_string())

    def lists(self, name: str) -> list[NDArray[np.float64] | None]:
        """See `Batch`."""
        return [as_numbers(value.get(name)) for value in self.values]


def as_number(value: object) -> float:
    """`value` as a float; NaN for None and for what is no number (a text that reads as a number is one: CSV has no others)."""
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


def columns_of(path: Path, notes: Notes) -> list[str]:
    """The names of the columns of a file, from its head; empty (and a note) if nothing can be read."""
    if path.suffix.lower() == ".parquet":
        try:
            with pq.ParquetFile(path) as file:
                return list(file.schema_arrow.names)
        except (OSError, pa.ArrowException, ValueError) as error:
            notes.tell("damaged_file", _damaged(path, error))
            return []
    for batch in batches(path, None, Notes(), size=64):
        return batch.names
    return []


def batches(path: Path, columns: list[str] | None, notes: Notes, size: int = BATCH_ROWS) -> Iterator[Batch]:
    """The rows of one file of any readable kind, told by its name; `columns` saves reading the others (Parquet)."""
    reader = READ.get(path.suffix.lower())
    if reader is None:
        raise RovrlError(refusal(path))
    try:
        yield from reader(path, columns, notes, size)
    except OSError as error:
        notes.tell("damaged_file", _damaged(path, error))


def refusal(path: Path) -> str:
    """Why a file of another kind is not read, as a sentence."""
    if path.suffix.lower() in REFUSED:
        return (
            f"{path} is not read: a {path.suffix} file can hold a pickle, which runs code when opened; "
            "write the rollouts as Parquet, JSON lines or CSV"
        )
    return f"{path} is not read: expected a .parquet, .jsonl, .json or .csv file"


def _parquet(path: Path, columns: list[str] | None, notes: Notes, size: int) -> Iterator[Batch]:
    start = 0
    try:
        with pq.ParquetFile(path, memory_map=True) as file:
            names = file.schema_arrow.names
            wanted = None if columns is None else [name for name in columns if name in names]
            for batch in file.iter_batches(batch_size=size, columns=wanted):
                yield ArrowBatch(start, batch)
                start += batch.num_rows
    except (pa.ArrowException, ValueError, OSError) as error:
        rest = f"; its first {start:,} rows were used" if start else ""
        notes.tell("damaged_file", _damaged(path, error) + rest)


def _json_lines(path: Path, columns: list[str] | None, notes: Notes, size: int) -> Iterator[Batch]:
    if path.suffix.lower() == ".json" and _starts_with(path, b"["):
        yield from _json_array(path, notes, size)
        return
    size = min(size, 8192)
    rows, values, bad = [], [], 0
    for number, line in enumerate(_lines(path, notes)):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            bad += 1
            continue
        rows.append(number)
        values.append(value)
        if len(rows) == size:
            yield DictBatch(rows, values)
            rows, values = [], []
    notes.count("unreadable_rows", "{n} lines are no JSON objects and were left out", bad)
    if rows:
        yield DictBatch(rows, values)


def _json_array(path: Path, notes: Notes, size: int) -> Iterator[Batch]:
    try:
        if path.stat().st_size > LINE_LIMIT:
            raise ValueError("a JSON array of this size cannot be streamed; write JSON lines")
        values = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        notes.tell("damaged_file", _damaged(path, error))
        return
    good = [(row, value) for row, value in enumerate(values) if isinstance(value, dict)]
    notes.count("unreadable_rows", "{n} entries are no JSON objects and were left out", len(values) - len(good))
    for start in range(0, len(good), size):
        part = good[start : start + size]
        yield DictBatch([row for row, _ in part], [value for _, value in part])


def _csv(path: Path, columns: list[str] | None, notes: Notes, size: int) -> Iterator[Batch]:
    size = min(size, 8192)
    csv.field_size_limit(FIELD_LIMIT)
    rows, values, number = [], [], -1
    reader = csv.DictReader(_lines(path, notes, keep_ends=True))
    while True:
        number += 1
        try:
            value = next(reader)
        except StopIteration:
            break
        except csv.Error as error:
            notes.tell("damaged_file", _damaged(path, error) + f"; its first {number:,} rows were used")
            break
        rows.append(number)
        values.append(value)
        if len(rows) == size:
            yield DictBatch(rows, values)
            rows, values = [], []
    if rows:
        yield DictBatch(rows, values)


def _lines(path: Path, notes: Notes, keep_ends: bool = False) -> Iterator[str]:
    """The lines of a text file: UTF-8, or what its byte-order mark says; undecodable bytes are replaced and noted."""
    encoding = _encoding(path)
    if encoding != "utf-8":
        with open(path, encoding=encoding, errors="replace", newline="") as file:
            while line := file.readline(LINE_LIMIT):
                yield line
        return
    replaced = 0
    with open(path, "rb") as file:
        first = True
        while raw := file.readline(LINE_LIMIT):
            if first:
                raw, first = raw.removeprefix(codecs.BOM_UTF8), False
            try:
                line = raw.decode("utf-8")
            except UnicodeDecodeError:
                line, replaced = raw.decode("utf-8", "replace"), replaced + 1
            yield line if keep_ends else line.rstrip("\r\n")
    if replaced:
        notes.tell(
            "encoding", f"{path} has {replaced:,} lines that are not UTF-8; what could not be read became U+FFFD"
        )


def _encoding(path: Path) -> str:
    with open(path, "rb") as file:
        head = file.read(4)
    for mark, name in ((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32")):
        if head.startswith(mark):
            return name
    return "utf-16" if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8"


def _starts_with(path: Path, mark: bytes) -> bool:
    with open(path, "rb") as file:
        return file.read(64).removeprefix(codecs.BOM_UTF8).lstrip().startswith(mark)


def _damaged(path: Path, error: Exception) -> str:
    reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
    return f"{path} is damaged and was left out: {reason}"


def _decodable(column: Any) -> Any:
    """A string column as it is if it is UTF-8, as Parquet promises; what is not becomes U+FFFD."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        wide = pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary()
        texts = [None if raw is None else raw.decode("utf-8", "replace") for raw in column.cast(wide).to_pylist()]
        return pa.array(texts, type=pa.large_string())
    return column


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


READ: dict[str, Callable[[Path, list[str] | None, Notes, int], Iterator[Batch]]] = {
    ".parquet": _parquet,
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".json": _json_lines,
    ".csv": _csv,
}
