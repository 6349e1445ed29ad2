"""Reading records: step by step; damaged files are reported and left out."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rovrl.errors import RovrlError, require
from rovrl.records.schema import COLUMNS, FILE_NAME, FORMAT, ROWS_PER_GROUP

pa = require("pyarrow", extra="train")
pq = require("pyarrow.parquet", extra="train")


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
        if directory.is_dir():
            found = [(int(m[1]), file) for file in directory.iterdir() if (m := FILE_NAME.fullmatch(file.name))]
            if found:
                return sorted(found)
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
