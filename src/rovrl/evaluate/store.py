"""An evaluation's directory: settings.json, SUITE.jsonl with every response, results.json; a killed run is resumed from it.

Responses are written one unit (a chunk of problems in one run) at a time; what a kill left of a unit is dropped and redone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from rovrl.errors import RovrlError
from rovrl.output.files import append_lines, read_lines, write_json, write_lines
from rovrl.output.locks import DirectoryLock

Record = dict[str, Any]
_KINDS = {"problem": str, "run": int, "unit": int, "sample": int, "tokens": int, "finished": bool}


class Store:
    """The directory `path`, opened for these settings; settings other than those it was begun with are refused."""

    def __init__(self, path: Path, settings: dict[str, Any]):
        self.path = path
        self._settings = settings
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = DirectoryLock(path, "rovrl eval")
        except OSError as error:
            raise RovrlError(
                f"cannot write results to {path} ({error.strerror}): choose another directory with --out"
            ) from None
        if any(file.stat().st_size for file in path.glob("*.jsonl")):  # settings alone, without a response, bind nobody
            _refuse_changes(path, read_settings(path), settings)

    def close(self) -> None:
        """Lets another evaluation go on in the directory."""
        self._lock.release()

    def finished(self, suite: str, chunk: int, total: int, samples: int) -> dict[tuple[int, int], list[Record]]:
        """The whole units of a suite, (run, unit) -> records; half-written ones are removed from the file."""
        file = self._file(suite)
        if not file.is_file():
            return {}
        units: dict[tuple[int, int], list[Record]] = {}
        for record in read_records(file):
            units.setdefault((record["run"], record["unit"]), []).append(record)
        whole = {
            key: records
            for key, records in units.items()
            if len(records) == samples * min(chunk, total - key[1] * chunk)
        }
        write_lines(file, (record for records in whole.values() for record in records))
        return whole

    def append(self, suite: str, records: Iterable[Record]) -> None:
        """Adds one unit and has it on the disk before returning."""
        try:
            self._write_settings()
            append_lines(self._file(suite), records)
        except OSError as error:
            raise RovrlError(
                f"cannot write to {self._file(suite)} ({error.strerror}): what is finished is kept, repeat the command to go on"
            ) from None

    def write_results(self, results: dict[str, Any]) -> Path:
        """Writes results.json."""
        self._write_settings()
        return write_json(self.path / "results.json", results, indent=2)

    def _write_settings(self) -> None:
        """At the first response, not before: a model that does not load must not leave settings that refuse the right one."""
        if self._settings is not None:
            write_json(self.path / "settings.json", self._settings, indent=2)
            self._settings = None

    def _file(self, suite: str) -> Path:
        return records_file(self.path, suite)


def records_file(path: Path, suite: str) -> Path:
    """Where a suite's responses are; the colon and slashes of TASK:FILE become dashes."""
    return path / (suite.replace(":", "-").replace("/", "-") + ".jsonl")


def read_settings(path: Path) -> dict[str, Any]:
    """The settings of the evaluation in `path`."""
    file = path / "settings.json"
    if not file.is_file():
        raise RovrlError(
            f"{path} is not an evaluation (it has no settings.json): give the --out directory of a `rovrl eval` run"
        )
    try:
        settings = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        settings = None
    if not isinstance(settings, dict) or not all(isinstance(settings.get(key), dict) for key in ("decoding", "data")):
        raise RovrlError(f"{file} is damaged: evaluate again into a new directory")
    return settings


def read_records(file: Path) -> list[Record]:
    """The records of a file; a last line that a kill cut short is left out."""
    return read_lines(file, "delete that line to have its problems done again", whole=_whole)


def _whole(record: Any) -> bool:
    return isinstance(record.get("metrics"), dict) and all(isinstance(record.get(n), k) for n, k in _KINDS.items())


def values(records: Iterable[Record], metric: str) -> tuple[list[str], np.ndarray]:
    """Problem ids in order, and the metric as [run, problem, sample]; ValueError if a run lacks a problem."""
    table: dict[str, dict[int, dict[int, float]]] = {}
    for record in records:
        table.setdefault(record["problem"], {}).setdefault(record["run"], {})[record["sample"]] = record["metrics"][
            metric
        ]
    problems = list(table)
    shapes = {tuple(sorted((run, len(row)) for run, row in runs.items())) for runs in table.values()}
    if len(shapes) != 1:
        raise ValueError("not every problem has the same runs and samples: the evaluation is not finished")
    runs = sorted(table[problems[0]])
    return problems, np.array(
        [[[v for _, v in sorted(table[p][r].items())] for p in problems] for r in runs], dtype=float
    )


def _refuse_changes(path: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    changed = [key for key in ("models", "decoding", "rewards") if before.get(key, {}) != now[key]]
    changed += [f"data of {suite}" for suite, mark in now["data"].items() if before["data"].get(suite, mark) != mark]
    if changed:
        raise RovrlError(
            f"{path} holds an evaluation with other settings ({', '.join(changed)}): choose another directory with --out, or "
            "repeat its own command to go on with it"
        )
    now["data"] = {**before["data"], **now["data"]}
