"""Rows of a data set: from a local file, or from the Hub, with columns renamed; what is missing is said in a sentence."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rovrl.errors import RovrlError, did_you_mean, require

Row = dict[str, Any]
ENDINGS = (".jsonl", ".json", ".csv", ".parquet")


def read_rows(path: Path) -> list[Row]:
    """The rows of a `.jsonl` file (one object per line), `.json` (the same, or a list of objects), `.csv` or `.parquet`."""
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
    try:
        return _read_csv(path) if path.suffix == ".csv" else _read_list(path) or _read_lines(path)
    except UnicodeDecodeError:
        raise RovrlError(f"{path} is not UTF-8 text") from None


def parse_columns(text: str) -> dict[str, str]:
    """{"problem": "question"} for "problem=question,...": what a task calls a column -> what the file calls it."""
    pairs = [part.partition("=") for part in text.split(",")]
    columns = {word.strip(): name.strip() for word, _, name in pairs}
    if len(columns) < len(pairs) or not all([*columns, *columns.values()]):
        raise RovrlError(f"write --columns as prompt=question,answer=gold (ours=yours, each once), not {text!r}")
    return columns


def renamed(rows: list[Row], columns: Mapping[str, str], where: str) -> list[Row]:
    """The rows with the column `columns[word]` called `word`; the others keep their names."""
    known = list(dict.fromkeys(name for row in rows for name in row))
    for name in columns.values():
        if rows and name not in known:
            near = did_you_mean(name, known)
            raise RovrlError(f"{where} has no column {name!r}{near} (found: {', '.join(map(str, known))})")
    kept = set(columns.values())
    return [
        {k: v for k, v in row.items() if k not in kept} | {w: row[c] for w, c in columns.items() if c in row}
        for row in rows
    ]


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


def _read_list(path: Path) -> list[Row]:
    """The objects of a `.json` file that is one list; [] for any other file."""
    if path.suffix != ".json":
        return []
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, RecursionError):
        return []
    return found if isinstance(found, list) and all(isinstance(row, dict) for row in found) else []


def _read_csv(path: Path) -> list[Row]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, restkey="")
        rows: list[Row] = []
        for row in reader:
            if "" in row:
                raise RovrlError(f"{path}, line {reader.line_num}: more cells than the first line names")
            rows.append(row)
        return rows


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
        except json.JSONDecodeError as error:
            raise RovrlError(f"{path}, line {number}: not JSON ({error.msg})") from None
    return rows
