"""Rows out of JSON lines and CSV, in batches that fit into memory; damage becomes a note, never an exception."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rovrl.audit.bombs import AT_ONCE
from rovrl.audit.read.cells import Batch, CommaBatch, DictBatch
from rovrl.audit.read.lines import lines, starts_with
from rovrl.audit.read.programs.samples import rows_of
from rovrl.audit.read.rows import Notes

MOST_ROWS_AT_ONCE = 8192
"""Rows of text in one batch: as dicts they need far more memory than as columns."""
MOST_BYTES = 2**37
"""Bytes that the wanted columns of one Parquet file, or one compressed text, may unpack to."""
ARRAY_LIMIT = 256 * 2**20
"""Bytes of a JSON array, which is read whole."""
FIELD_LIMIT = 2**28
QUOTED = re.compile(r'"(?:[^"]|"")*(?:"|$)')

Line = tuple[int, list[dict[str, Any]], int]
"""The number of its first row, its rows, and its letters; a line may hold a batch, whose rows stay together."""


def json_lines(path: Path, columns: list[str] | None, notes: Notes, size: int) -> Iterator[Batch]:
    """The objects of a file of JSON lines, or of one JSON array."""
    if path.suffix.lower() == ".json" and starts_with(path, b"["):
        yield from _json_array(path, notes, size)
    else:
        yield from _batched(_json_rows(path, notes), size, DictBatch)


def csv_rows(path: Path, columns: list[str] | None, notes: Notes, size: int) -> Iterator[Batch]:
    """The rows of a file of comma-, semicolon- or tab-separated values; between semicolons a number may have a comma."""
    csv.field_size_limit(FIELD_LIMIT)
    delimiter = _delimiter(path)
    kind = CommaBatch if delimiter == ";" else DictBatch
    yield from _batched(_csv_rows(path, delimiter, notes), size, kind)


def tell_doubles(path: Path, names: list[str], notes: Notes) -> None:
    """A note on columns that have the same name."""
    doubles = sorted({name for name in names if names.count(name) > 1})
    if doubles:
        notes.tell(
            "double_columns", f"{path} has several columns named {', '.join(doubles)}: the first of them is used"
        )


def damaged(path: Path, error: Exception) -> str:
    """Why a file was left out, as a sentence."""
    if isinstance(error, PermissionError):
        return f"{path} was left out: permission denied"
    reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
    return f"{path} is damaged and was left out: {reason}"


def _batched(found: Iterator[Line], size: int, kind: type[DictBatch]) -> Iterator[Batch]:
    """The rows in batches of `size`, or of as many letters as may be read at once: a row may be long."""
    rows, values, held = [], [], 0
    for number, some, length in found:
        rows += range(number, number + len(some))
        values += some
        held += length
        if len(rows) >= min(size, MOST_ROWS_AT_ONCE) or held >= AT_ONCE:
            if rows:
                yield kind(rows, values)
            rows, values, held = [], [], 0
    if rows:
        yield kind(rows, values)


def _json_rows(path: Path, notes: Notes) -> Iterator[Line]:
    bad = beyond = 0
    for number, line in enumerate(lines(path, notes, MOST_BYTES)):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            bad += 1
            continue
        found = rows_of(value)
        yield number + beyond, found, len(line)
        beyond += len(found) - 1
    notes.count("unreadable_rows", "{n} lines are not JSON objects and were left out", bad)


def _json_array(path: Path, notes: Notes, size: int) -> Iterator[Batch]:
    if path.stat().st_size > ARRAY_LIMIT:
        notes.tell("too_large", f"{path} was left out: a JSON array of this size cannot be streamed; write JSON lines")
        return
    try:
        values = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        notes.tell("damaged_file", damaged(path, error))
        return
    good = [(row, value) for row, value in enumerate(values) if isinstance(value, dict)]
    notes.count("unreadable_rows", "{n} entries are not JSON objects and were left out", len(values) - len(good))
    for start in range(0, len(good), size):
        part = good[start : start + size]
        yield DictBatch([row for row, _ in part], [value for _, value in part])


def _csv_rows(path: Path, delimiter: str, notes: Notes) -> Iterator[Line]:
    """The rows by the names of the first line; of several columns with one name the first counts."""
    reader, number = csv.reader(lines(path, notes, MOST_BYTES, keep_ends=True), delimiter=delimiter), 0
    try:
        names = next(reader, [])
        tell_doubles(path, names, notes)
        for cells in filter(None, reader):  # empty lines are not rows
            value: dict[str, str] = {}
            for name, cell in zip(names, cells, strict=False):
                value.setdefault(name, cell)
            yield number, [value], sum(map(len, cells))
            number += 1
    except csv.Error as error:
        notes.tell("damaged_file", damaged(path, error) + f"; its first {number:,} rows were used")


def _delimiter(path: Path) -> str:
    """What stands between the cells: a tab in .tsv, else what the first line has most of outside quotes."""
    if path.suffix.lower() == ".tsv":
        return "\t"
    head = QUOTED.sub("", next(lines(path, Notes(), MOST_BYTES), ""))
    return max(",;\t", key=head.count)
