"""Writing a step: whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rovrl.errors import RovrlError, require
from rovrl.output.files import replacing
from rovrl.output.locks import DirectoryLock
from rovrl.records.schema import COLUMNS, FILE_NAME, FORMAT, ROWS_PER_GROUP, SCHEMA

pa = require("pyarrow", extra="train")
pq = require("pyarrow.parquet", extra="train")

_OPTIONAL = {"log_ratios": None, "contamination": "", "method": "", "reference": None}


class RecordWriter:
    """Writes one file per finished step into `directory`; `settings` (plain JSON values) go into each file.

    Writing a step again replaces its file. Another process that is still writing there is a
    RovrlError.
    """

    def __init__(self, directory: str | os.PathLike[str], settings: Mapping[str, Any] | None = None) -> None:
        self.directory = Path(directory)
        metadata = {b"rovrl.format": str(FORMAT), b"rovrl.settings": json.dumps(dict(settings or {}), sort_keys=True)}
        self._schema = SCHEMA.with_metadata(metadata)
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _cannot_write(self.directory, error) from error
        try:
            self._lock = DirectoryLock(self.directory, "records")
        except OSError as error:
            raise _cannot_write(self.directory, error) from error
        for left_over in self.directory.glob(".step_*.parquet*.tmp"):  # of a run that was killed while writing
            left_over.unlink(missing_ok=True)

    def must_be_empty(self) -> None:
        """A RovrlError if there are records already: a second run would overwrite some and mix with the rest."""
        steps = sorted(_steps(self.directory))
        if steps:
            raise RovrlError(
                f"{self.directory} holds the records of another run (steps {steps[0]} to {steps[-1]}): choose another "
                "record_dir, delete them, or go on with that run (resume_from_checkpoint)"
            )

    def keep_up_to(self, step: int) -> None:
        """Drops the files of later steps, which a run that goes on after `step` writes again."""
        keep_steps_up_to(self.directory, step)

    def close(self) -> None:
        """Lets another process write into the directory; so does the end of this process."""
        self._lock.release()

    def write_step(self, step: int, rows: Mapping[str, Sequence[Any]], notes: Mapping[str, Any] | None = None) -> Path:
        """The path of the finished file of `step`; `rows` holds columns of equal length (`step` itself is filled in).

        `log_ratios`, `contamination`, `method` and `reference` may be left out. `notes` (plain JSON values): what the
        step has to say beside its rows, such as its partition. On a full disk or an unwritable directory: a RovrlError,
        with every earlier step untouched.
        """
        metadata = {**self._schema.metadata, b"rovrl.notes": json.dumps(dict(notes or {}), sort_keys=True)}
        table = _table(step, rows, self._schema.with_metadata(metadata))
        path = self.directory / f"step_{step:06d}.parquet"
        try:
            with replacing(path) as file:
                pq.write_table(table, file, compression="zstd", row_group_size=ROWS_PER_GROUP)
        except OSError as error:
            raise _cannot_write(path, error) from error
        return path


def keep_steps_up_to(directory: str | os.PathLike[str], step: int) -> None:
    """Drops the records of later steps, of a run that goes on after `step` or (0) begins again."""
    for later, path in _steps(Path(directory)).items():
        if later > step:
            path.unlink(missing_ok=True)


def _steps(directory: Path) -> dict[int, Path]:
    files = directory.iterdir() if directory.is_dir() else ()
    return {int(match[1]): path for path in files if (match := FILE_NAME.fullmatch(path.name))}


def _table(step: int, rows: Mapping[str, Sequence[Any]], schema: Any) -> Any:
    unknown = sorted(set(rows) - set(COLUMNS))
    missing = [name for name in COLUMNS if name not in rows and name not in _OPTIONAL and name != "step"]
    if unknown or missing:
        raise ValueError(
            f"rows of step {step}: unknown columns {unknown}, missing columns {missing}; known: {', '.join(COLUMNS)}"
        )
    lengths = {name: len(column) for name, column in rows.items()}
    if len(set(lengths.values())) != 1:
        raise ValueError(f"rows of step {step}: the columns have different lengths: {lengths}")
    count = lengths["group"]
    filled = {name: rows.get(name, [_OPTIONAL.get(name)] * count) for name in COLUMNS}
    filled["step"] = [step] * count
    try:
        arrays = [_array(filled[field.name], field) for field in schema]
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise ValueError(f"rows of step {step}: {error}") from error
    table = pa.Table.from_arrays(arrays, schema=schema)
    for name, array in zip(COLUMNS, arrays, strict=True):
        if array.null_count and not schema.field(name).nullable:
            raise ValueError(f"rows of step {step}: column {name} has {array.null_count} missing values")
    return table


def _array(column: Sequence[Any], field: Any) -> Any:
    if field.name == "log_ratios":
        return _list_array(column)
    if hasattr(column, "tolist"):  # numpy array or tensor
        column = column.tolist()  # pyright: ignore[reportAttributeAccessIssue]
    if pa.types.is_string(field.type):
        column = [_encodable(text) for text in column]
    # NaN is how a trainer holds "not scored"; in a file that is null
    return pa.array(column, type=field.type, from_pandas=field.name in ("reward", "reference"))


def _encodable(text: Any) -> Any:
    """A text that UTF-8 can hold: lone surrogates, which a tokenizer may put out, become question marks."""
    return text.encode("utf-8", "replace").decode() if isinstance(text, str) and not text.isascii() else text


def _list_array(column: Sequence[Any]) -> Any:
    """The rows' numbers end to end with their offsets: no Python object per token."""
    rows = [None if row is None else np.asarray(row, dtype=np.float32) for row in column]
    if any(row is not None and row.ndim != 1 for row in rows):
        raise ValueError("log_ratios must hold one list of numbers per row, or None")
    lengths = [0 if row is None else len(row) for row in rows]
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    values = np.concatenate([row for row in rows if row is not None] or [np.zeros(0, np.float32)])
    missing = pa.array([row is None for row in rows])
    return pa.ListArray.from_arrays(offsets, pa.array(values), type=pa.list_(pa.float32()), mask=missing)


def _cannot_write(path: Path, error: OSError) -> RovrlError:
    reason = error.strerror or str(error)
    return RovrlError(f"cannot write the record {path}: {reason}; free space or choose another record_dir")
