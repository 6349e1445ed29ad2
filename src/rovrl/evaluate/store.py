"""An evaluation's directory: settings.json, SUITE.jsonl with every response, results.json; a killed run goes on in it.

Responses are written one unit (a chunk of problems in one run) at a time; what a kill left of a unit is dropped and redone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from rovrl.errors import RovrlError

Record = dict[str, Any]


class Store:
    """The directory `path`, opened for these settings; other settings than those it was begun with are refused."""

    def __init__(self, path: Path, settings: dict[str, Any]):
        self.path = path
        file = path / "settings.json"
        if file.is_file():
            _refuse_changes(path, json.loads(file.read_text()), settings)
        try:
            path.mkdir(parents=True, exist_ok=True)
            _write(file, settings)
        except OSError as error:
            raise RovrlError(
                f"cannot write results to {path} ({error.strerror}): choose another directory with --out"
            ) from None

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
        lines = "".join(json.dumps(record) + "\n" for records in whole.values() for record in records)
        _replace(file, lines)
        return whole

    def append(self, suite: str, records: Iterable[Record]) -> None:
        """Adds one unit and has it on the disk before returning."""
        try:
            with self._file(suite).open("a", encoding="utf-8") as out:
                out.write("".join(json.dumps(record) + "\n" for record in records))
                out.flush()
                os.fsync(out.fileno())
        except OSError as error:
            raise RovrlError(
                f"cannot write to {self._file(suite)} ({error.strerror}): what is finished is kept, repeat the command to go on"
            ) from None

    def write_results(self, results: dict[str, Any]) -> Path:
        """Writes results.json."""
        _write(self.path / "results.json", results)
        return self.path / "results.json"

    def _file(self, suite: str) -> Path:
        return records_file(self.path, suite)


def records_file(path: Path, suite: str) -> Path:
    """Where a suite's responses are; the colon and slashes of TASK:FILE become dashes."""
    return path / (suite.replace(":", "-").replace("/", "-") + ".jsonl")


def read_records(file: Path) -> list[Record]:
    """The records of a file; a last line that a kill cut short is left out."""
    records: list[Record] = []
    lines = file.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines, 1):
        if line:
            try:
                records.append(json.loads(line))
            except json.JSONDecodeError:
                if number == len(lines):
                    break
                raise RovrlError(
                    f"{file}, line {number} is damaged: delete that line to have its problems done again"
                ) from None
    return records


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
    changed = [key for key in ("models", "decoding") if before.get(key) != now[key]]
    changed += [f"data of {suite}" for suite, mark in now["data"].items() if before["data"].get(suite, mark) != mark]
    if changed:
        raise RovrlError(
            f"{path} holds an evaluation with other settings ({', '.join(changed)}): choose another directory with --out, or "
            "repeat its own command to go on with it"
        )
    now["data"] = {**before["data"], **now["data"]}


def _write(file: Path, content: dict[str, Any]) -> None:
    _replace(file, json.dumps(content, indent=2) + "\n")


def _replace(file: Path, text: str) -> None:
    unfinished = file.with_suffix(file.suffix + ".unfinished")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(file)
