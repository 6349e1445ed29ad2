"""Rows out of Parquet, JSON lines and CSV, in batches; damage becomes a note, never an exception.

Nothing here executes what it reads: no pickle, no eval, no format that can hold code.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from rovrl.audit.bombs import counted, rows_at_once
from rovrl.audit.read.cells import ArrowBatch, Batch
from rovrl.audit.read.lines import ending
from rovrl.audit.read.rows import Notes
from rovrl.audit.read.texts import MOST_BYTES, csv_rows, damaged, json_lines, tell_doubles
from rovrl.errors import RovrlError, require

pa = require("pyarrow", extra="report")
pc = require("pyarrow.compute", extra="report")

BATCH_ROWS, NUMBER_ROWS = 2**17, 2**20
"""Rows read at a time, and where only numbers are read: whatever a text column may unpack to, the batch fits into memory."""
MOST_ROWS = 2**28
"""Rows of one file; more do not fit into memory, and a small file that claims them is a bomb."""
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


def _opened(path: Path) -> Any:
    """A Parquet file, read without a memory map: one that is cut short while it is read would kill the process."""
    return require("pyarrow.parquet", extra="report").ParquetFile(path)


def _parquet(path: Path, columns: list[str] | None, notes: Notes, size: int) -> Iterator[Batch]:
    start = 0
    try:
        with _opened(path) as file:
            names = file.schema_arrow.names
            wanted = None if columns is None else [name for name in columns if name in names]
            _check_size(file.metadata, wanted)
            tell_doubles(path, names if wanted is None else [name for name in names if name in wanted], notes)
            size = rows_at_once(path, file.metadata, wanted, size)
            for batch in counted(_read(file, wanted, size), MOST_BYTES):
                yield ArrowBatch(start, batch)
                start += batch.num_rows
    except (pa.ArrowException, ValueError, OSError) as error:
        rest = f"; its first {start:,} rows were used" if start else ""
        notes.tell("damaged_file", damaged(path, error) + rest)


def _read(file: Any, wanted: list[str] | None, size: int) -> Iterator[Any]:
    """The batches of a Parquet file; numbers alone in larger ones, unless the file is damaged: then not more is lost."""
    start = 0
    if size == BATCH_ROWS and wanted and all(_is_number(file.schema_arrow, name) for name in wanted):
        try:
            for batch in file.iter_batches(batch_size=NUMBER_ROWS, columns=wanted):
                yield batch
                start += batch.num_rows
        except (pa.ArrowException, OSError):
            pass
        else:
            return
    seen = 0
    for batch in file.iter_batches(batch_size=size, columns=wanted):
        yield from [batch.slice(max(start - seen, 0))] if seen + batch.num_rows > start else ()
        seen += batch.num_rows


def _is_number(schema: Any, name: str) -> bool:
    kinds = [schema.field(k).type for k in schema.get_all_field_indices(name)]
    return all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds)


def _check_size(metadata: Any, wanted: list[str] | None) -> None:
    """A ValueError for more rows or bytes than can be held, by what the file says of itself."""
    if metadata.num_rows > MOST_ROWS:
        raise ValueError(f"it claims {metadata.num_rows:,} rows, more than {MOST_ROWS:,}: split it")
    total = 0
    for group in (metadata.row_group(k) for k in range(metadata.num_row_groups)):
        columns = (group.column(k) for k in range(group.num_columns))
        chosen = (c for c in columns if wanted is None or c.path_in_schema.split(".")[0] in wanted)
        total += sum(c.total_uncompressed_size for c in chosen)
    if total > MOST_BYTES:
        raise ValueError(f"it unpacks to {total / 2**30:,.0f} GB, more than {MOST_BYTES / 2**30:,.0f}: split it")


READ: dict[str, Callable[[Path, list[str] | None, Notes, int], Iterator[Batch]]] = {
    ".parquet": _parquet,
    ".jsonl": json_lines,
    ".jsonl.gz": json_lines,
    ".ndjson": json_lines,
    ".json": json_lines,
    ".csv": csv_rows,
    ".tsv": csv_rows,
}
