"""The files of records: their columns, writing a step whole or not at all, reading them step by step.

Damaged files are reported and left out.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rovrl.errors import RovrlError, require
from rovrl.output.files import replacing
from rovrl.output.locks import DirectoryLock

pa = require("pyarrow", extra="train")
pq = require("pyarrow.parquet", extra="train")

FORMAT = 1
SCHEMA = pa.schema(
    [
        pa.field("step", pa.int64(), nullable=False),  # which generation, from 1
        pa.field("update", pa.int32(), nullable=False),  # optimizer step within it, from 0
        pa.field("group", pa.string(), nullable=False),  # the same for the responses to one prompt; unique in the step
        pa.field("response", pa.int32(), nullable=False),  # index within the group
        pa.field("prompt", pa.string(), nullable=False),
        pa.field("completion", pa.string(), nullable=False),
        pa.field("reward", pa.float64()),  # as trained on (after contamination); null = not scored
        pa.field("advantage", pa.float64(), nullable=False),
        pa.field("reference", pa.float64()),  # the group's reference; null = the group had none
        pa.field("length", pa.int32(), nullable=False),  # valid tokens
        pa.field("clip_low", pa.float64(), nullable=False),  # the weight is clipped to [1 - low, 1 + high]
        pa.field("clip_high", pa.float64(), nullable=False),
        pa.field("log_ratios", pa.list_(pa.float32())),  # of the valid tokens, in order; null = not recorded
        pa.field("contamination", pa.string(), nullable=False),  # what was planted; "" = clean
        pa.field("method", pa.string(), nullable=False),
    ]
)
COLUMNS: tuple[str, ...] = tuple(SCHEMA.names)
ROWS_PER_GROUP = 1024
"""Rows that a reader needs in memory at a time."""
FILE_NAME = re.compile(r"step_(\d+)\.parquet")
CALLS = "reward_calls"
"""The note of a step that says what asking servers for its rewards took, by metric name."""


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


def read_steps(
    path: str | os.PathLike[str], columns: Sequence[str] | None = None, report: Callable[[str], None] | None = None
) -> Iterator[tuple[int, Any]]:
    """Yields (step, pyarrow.Table) in the order of steps, one step in memory at a time.

    `path` is a record directory, a run directory that holds `records/`, or one file; `columns` picks columns. A damaged
    file is left out and reported to `report` (default: a warning).
    """
    for step, step_file, file in _readable(path, columns, report):
        try:
            with file:
                table = file.read(columns=_wanted(columns))
        except (OSError, pa.ArrowException) as error:  # the end of the file is whole, something before it is not
            _tell(step_file, error, report)
            continue
        yield step, table


def read_batches(
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    batch_size: int = ROWS_PER_GROUP,
    report: Callable[[str], None] | None = None,
) -> Iterator[tuple[int, Any]]:
    """Yields (step, pyarrow.RecordBatch) of at most `batch_size` rows: for steps too large to hold in memory.

    Of a file that is damaged in the middle, the rows before the damage have been given when it is found; the rest is left out
    and reported to `report`.
    """
    for step, step_file, file in _readable(path, columns, report):
        given = 0
        with file:
            try:
                for batch in file.iter_batches(batch_size=batch_size, columns=_wanted(columns)):
                    yield step, batch
                    given += len(batch)
            except (OSError, pa.ArrowException) as error:
                _tell(step_file, error, report, given)


def read_settings(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The settings that the run wrote, from the first readable file."""
    for _, _, file in _readable(path, None, None):
        with file:
            return json.loads((file.schema_arrow.metadata or {})[b"rovrl.settings"])
    raise RovrlError(f"no readable record in {os.fspath(path)}")


def read_notes(
    path: str | os.PathLike[str], report: Callable[[str], None] | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields (step, the notes written with it); no row is read."""
    for step, _, file in _readable(path, None, report):
        with file:
            yield step, json.loads((file.schema_arrow.metadata or {}).get(b"rovrl.notes", b"{}"))


def steps_in(path: str | os.PathLike[str]) -> list[int]:
    """The numbers of the steps that have a file, in order (the files are not opened)."""
    return [step for step, _ in _files(Path(path))]


def is_record_set(path: str | os.PathLike[str]) -> bool:
    """True if `path` names record files: by their names in a directory, by its content for one file."""
    path = Path(path)
    if path.is_file():
        try:
            with pq.ParquetFile(path) as file:
                return b"rovrl.format" in (file.schema_arrow.metadata or {})
        except (OSError, pa.ArrowException):
            return FILE_NAME.fullmatch(path.name) is not None
    try:
        return bool(_files(path))
    except RovrlError:
        return False


def _files(path: Path) -> list[tuple[int, Path]]:
    if path.is_file():
        match = FILE_NAME.fullmatch(path.name)
        return [(int(match[1]) if match else -1, path)]
    if not path.exists():
        raise RovrlError(f"{path} does not exist: name a run directory, its records directory, or one record file")
    for directory in (path, path / "records"):
        found = sorted(_steps(directory).items())
        if found:
            return found
    raise RovrlError(
        f"{path} holds no records (no step_*.parquet, neither there nor in records/): train with record_dir set"
    )


def _readable(
    path: str | os.PathLike[str], columns: Sequence[str] | None, report: Callable[[str], None] | None
) -> Iterator[tuple[int, Path, Any]]:
    unknown = [name for name in columns or () if name not in COLUMNS]
    if unknown:
        raise ValueError(f"records have no column {', '.join(unknown)}; the columns are {', '.join(COLUMNS)}")
    for step, file_path in _files(Path(path)):
        try:
            file = pq.ParquetFile(file_path)
        except (OSError, pa.ArrowException) as error:
            _tell(file_path, error, report)
            continue
        _check_format(file, file_path)
        yield step, file_path, file


def _tell(path: Path, error: Exception, report: Callable[[str], None] | None, given: int = 0) -> None:
    part = f" from row {given + 1} on" if given else ""
    sentence = f"{path} is damaged and was left out{part}: {str(error).splitlines()[0]}"
    if report is None:
        warnings.warn(sentence, stacklevel=4)
    else:
        report(sentence)


def _check_format(file: Any, path: Path) -> None:
    version = (file.schema_arrow.metadata or {}).get(b"rovrl.format")
    if version is None:
        raise RovrlError(f"{path} is Parquet, but not a record of rovrl; `rovrl audit` reads other rollouts")
    if int(version) > FORMAT:
        raise RovrlError(f"{path} has record format {int(version)}, this rovrl reads up to {FORMAT}: upgrade rovrl")


def _wanted(columns: Sequence[str] | None) -> list[str] | None:
    return None if columns is None else list(columns)
