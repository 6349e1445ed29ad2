"""Rows of a data set: from a local JSON lines or Parquet file, or from the Hub; what is missing is said in a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rovrl.errors import RovrlError, require

Row = dict[str, Any]
ENDINGS = (".jsonl", ".json", ".parquet")


def read_rows(path: Path) -> list[Row]:
    """The rows of a `.jsonl`/`.json` file (one object a line) or a `.parquet` file."""
    if not path.is_file():
        raise RovrlError(f"there is no file {path}: give a {' / '.join(ENDINGS)} file")
    if path.suffix == ".parquet":
        parquet = require("pyarrow.parquet", extra="tasks")
        try:
            return parquet.read_table(path).to_pylist()
        except Exception as error:
            raise RovrlError(f"{path} is not a readable Parquet file ({str(error).splitlines()[0]})") from None
    if path.suffix not in ENDINGS:
        raise RovrlError(f"{path}: its name must end in {', '.join(ENDINGS)}")
    return _read_lines(path)


def find_local(name: str, where: Path) -> Path:
    """The file of the set `name`: `where` itself if it is a file, else `where/name.jsonl` (or .json, .parquet)."""
    if where.is_file():
        return where
    for ending in ENDINGS:
        candidate = where / f"{name}{ending}"
        if candidate.is_file():
            return candidate
    raise RovrlError(f"no data for {name!r} in {where}: expected {name}.jsonl or {name}.parquet there")


def hub_rows(hub: str, split: str, config: str | None = None) -> list[Row]:
    """The rows of a Hub data set (downloaded once, then cached by `datasets`)."""
    datasets = require("datasets", extra="tasks")
    try:
        return list(datasets.load_dataset(hub, config, split=split))
    except (
        Exception
    ) as error:  # `datasets` and the Hub client raise a dozen kinds; each means that the data is not here
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise RovrlError(
            f"the data set {hub} could not be fetched from the Hub ({reason}): connect to the network once, or give a local "
            "copy with --data DIR (docs/eval.md shows the shape of the files)"
        ) from None


def _read_lines(path: Path) -> list[Row]:
    rows: list[Row] = []
    with path.open(encoding="utf-8") as lines:
        try:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    row = json.loads(line)
                    if not isinstance(row, dict):
                        raise RovrlError(f"{path}, line {number}: a JSON object was expected, not {type(row).__name__}")
                    rows.append(row)
        except UnicodeDecodeError:
            raise RovrlError(f"{path} is not UTF-8 text") from None
        except json.JSONDecodeError as error:
            raise RovrlError(f"{path}, line {number}: not JSON ({error.msg})") from None
    return rows
