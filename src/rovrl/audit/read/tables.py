"""Rows of any file that is read: Parquet, JSON lines and CSV, in batches; damage becomes a note, never an exception.

Nothing here executes what it reads: no pickle, no eval, no format that can hold code. Nor does it unpack more than memory
holds: what a Parquet file says of its own size counts a text once, however many rows repeat it by number, so the longest of
them is looked up, and as many rows are read at once as fit.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from rovrl.audit.read.cells import ArrowBatch, Batch
from rovrl.audit.read.notes import Notes
from rovrl.audit.read.texts import (
    AT_ONCE,
    MOST_BYTES,
    csv_rows,
    damaged,
    ending,
    json_lines,
    most_bytes,
    tell_doubles,
)
from rovrl.errors import RovrlError, require

pa = require("pyarrow", extra="report")
pc = require("pyarrow.compute", extra="report")

BATCH_ROWS, TEXT_ROWS = 2**20, 2**17
"""Rows read at a time, at most, and where texts are looked at one by one."""
WIDTH = 8
"""Bytes of a number, or of the place of a text, in memory."""
REFUSED = {".pkl", ".pickle", ".pt", ".pth", ".bin", ".npy", ".npz", ".joblib", ".ckpt"}


def columns_of(path: Path, notes: Notes) -> list[str]:
    """The names of the columns of a file, from its head; empty (and a note) if nothing can be read."""
    if path.suffix.lower() == ".parquet":
        try:
            check_regular(path)
            with _opened(path) as file:
                return list(dict.fromkeys(file.schema_arrow.names))
        except (OSError, pa.ArrowException, ValueError) as error:
            notes.tell("damaged_file", damaged(path, error))
            return []
    state = path.stat() if path.exists() else None
    return list(_names(path, state.st_size, state.st_mtime_ns, state.st_ino)) if state else []


@lru_cache(maxsize=1024)
def _names(path: Path, *_state: int) -> tuple[str, ...]:
    """The columns of a text file in that state; every reader asks, and the head of a file may be long."""
    return tuple(next((batch.names for batch in batches(path, None, Notes(), size=64)), ()))


def batches(path: Path, columns: list[str] | None, notes: Notes, size: int = BATCH_ROWS) -> Iterator[Batch]:
    """The rows of one file of any readable kind, recognised by its name; `columns` saves reading the others (Parquet)."""
    reader = READ.get(ending(path))
    if reader is None:
        raise RovrlError(refusal(path))
    try:
        check_regular(path)
        yield from reader(path, columns, notes, size)
    except OSError as error:
        notes.tell("damaged_file", damaged(path, error))


def check_regular(path: Path) -> None:
    """An OSError if `path` is anything but a regular file: a pipe or a device may never end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError("it is not a regular file")


def refusal(path: Path) -> str:
    """Why a file of another kind is not read, as a sentence."""
    if path.suffix.lower() in REFUSED:
        return (
            f"{path} is not read: a {path.suffix} file can hold a pickle, which runs code when opened; "
            "write the rollouts as Parquet, JSON lines or CSV"
        )
    return f"{path} is not read: expected a .parquet, .jsonl, .jsonl.gz, .json, .csv or .tsv file"


def _opened(path: Path, **options: Any) -> Any:
    """A Parquet file, read without a memory map: one that is cut short while it is read would kill the process."""
    return require("pyarrow.parquet", extra="report").ParquetFile(path, **options)


def _parquet(path: Path, columns: list[str] | None, notes: Notes, size: int) -> Iterator[Batch]:
    start = unpacked = 0
    try:
        with _opened(path) as file:
            names = file.schema_arrow.names
            wanted = None if columns is None else [name for name in columns if name in names]
            tell_doubles(path, names if wanted is None else [name for name in names if name in wanted], notes)
            size = _rows_at_once(path, file.metadata, wanted, size)
            for batch in file.iter_batches(batch_size=size, columns=wanted):
                unpacked += batch.nbytes
                _check_size(unpacked, MOST_BYTES)
                yield ArrowBatch(start, batch)
                start += batch.num_rows
    except (pa.ArrowException, ValueError, OSError) as error:
        rest = f"; its first {start:,} rows were used" if start else ""
        notes.tell("damaged_file", damaged(path, error) + rest)


def _check_size(unpacked: int, most: int) -> None:
    """A ValueError for more bytes than a file may unpack to."""
    if unpacked > most:
        raise ValueError(f"it unpacks to more than {most / 2**30:,.3g} GB: split it")


def _rows_at_once(path: Path, metadata: Any, wanted: list[str] | None, size: int) -> int:
    """How many rows of a Parquet file can be read at once, at most `size`; a ValueError for a bomb."""
    groups = [(number, metadata.row_group(number)) for number in range(metadata.num_row_groups)]
    columns = [(number, group.num_rows, group.column(k)) for number, group in groups for k in range(group.num_columns)]
    columns = [entry for entry in columns if wanted is None or entry[2].path_in_schema.split(".")[0] in wanted]
    claimed = sum(max(column.total_uncompressed_size, WIDTH * column.num_values) for _, _, column in columns)
    _check_size(claimed, most_bytes(path))
    for number, rows, column in columns:
        stored, per_row = column.total_uncompressed_size, column.num_values / max(rows, 1)
        width = max(WIDTH, stored / max(column.num_values, 1))
        repeated = column.physical_type == "BYTE_ARRAY" and column.has_dictionary_page
        if repeated and min(size, rows) * per_row * stored > AT_ONCE:  # else no text can be too long
            width = _longest(path, number, column.path_in_schema)
        size = max(1, min(size, int(AT_ONCE / max(width * per_row, 1))))
    return size


def _longest(path: Path, group: int, column: str) -> int:
    """Bytes of the longest text among those that the rows of a row group repeat; only the head of the column is read."""
    with _opened(path, read_dictionary=[column], pre_buffer=False, buffer_size=2**17) as file:
        for batch in file.iter_batches(batch_size=1, row_groups=[group], columns=[column]):
            lengths = [pc.max(pc.binary_length(texts)).as_py() or 0 for texts in _dictionaries(batch.column(0))]
            return max(lengths, default=AT_ONCE)
    return 0


def _dictionaries(column: Any) -> Iterator[Any]:
    """The texts that are repeated, wherever in a column they are nested."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        yield column.dictionary
    elif pa.types.is_struct(kind):
        for k in range(kind.num_fields):
            yield from _dictionaries(column.field(k))
    elif pa.types.is_map(kind):
        yield from _dictionaries(column.keys)
        yield from _dictionaries(column.items)
    elif pa.types.is_nested(kind):
        yield from _dictionaries(column.values)


READ: dict[str, Callable[[Path, list[str] | None, Notes, int], Iterator[Batch]]] = {
    ".parquet": _parquet,
    ".jsonl": json_lines,
    ".jsonl.gz": json_lines,
    ".ndjson": json_lines,
    ".json": json_lines,
    ".csv": csv_rows,
    ".tsv": csv_rows,
}
