"""What an evaluation leaves: every response on the disk, means with their uncertainty, and two evaluations compared.

A directory holds settings.json, SUITE.jsonl with every response and results.json. Responses are written one unit (a chunk of
problems in one run) at a time; what a kill left of a unit is dropped and redone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rovrl.errors import RovrlError
from rovrl.output.files import append_lines, read_lines, write_json, write_lines
from rovrl.output.intervals import crossed, differences
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


Values = NDArray[np.float64]
"""[run, problem, sample]"""


def interval(per_problem: NDArray[np.float64]) -> list[float]:
    """The 95 % interval of the mean of `per_problem` [problem] over the choice of problems."""
    found = crossed(per_problem[None], seed=0)
    return [found.low, found.high]


def summarize(values: Values, *, binary: bool) -> dict[str, object]:
    """The mean over everything, each run's mean, their standard deviation, and the interval over problems.

    `sd` divides by runs - 1 (as `tab:placement_ablation` does), `sd_population` by runs (as `tab:math_main` does); both are
    None for one run. For a 0/1 metric, pass@1 is its expectation, which mean@k estimates with k samples per problem.
    """
    runs, _, samples = values.shape
    means = values.mean(axis=(1, 2))
    summary: dict[str, object] = {
        "mean": float(values.mean()),
        "runs": means.tolist(),
        "sd": float(means.std(ddof=1)) if runs > 1 else None,
        "sd_population": float(means.std()) if runs > 1 else None,
        "interval": interval(values.mean(axis=(0, 2))),
        f"mean@{samples}": float(values.mean()),
    }
    if binary:
        summary["pass@1"] = float(values.mean())
        if samples > 1:
            summary[f"pass@{samples}"] = float(pass_at(values, samples).mean())
    return summary


def pass_at(values: Values, k: int) -> NDArray[np.float64]:
    """1 - C(n-c, k) / C(n, k) for each run and problem: the chance that one of k drawn samples is right (Chen et al. 2021)."""
    samples = values.shape[-1]
    if not 1 <= k <= samples:
        raise ValueError(f"k must be between 1 and the number of samples {samples}, not {k}")
    right = np.rint(values.sum(axis=-1)).astype(int)
    table = np.array([1 - comb(samples - c, k) / comb(samples, k) for c in range(samples + 1)])
    return table[right]


def paired(first: NDArray[np.float64], second: NDArray[np.float64]) -> dict[str, object]:
    """second - first over the same problems [problem]: mean difference, its bootstrap interval, and who wins where."""
    difference = differences(second, first)
    return {
        "first": float(first.mean()),
        "second": float(second.mean()),
        "difference": float(difference.mean()),
        "interval": interval(difference),
        "better": int((difference > 0).sum()),
        "worse": int((difference < 0).sum()),
        "equal": int((difference == 0).sum()),
    }


def compare(first: Path, second: Path) -> dict[str, Any]:
    """For every suite and metric of both: B - A with its paired bootstrap interval over the problems.

    Refuses evaluations that were decoded differently or on different problems: the difference would not be due to the models.
    """
    settings = [read_settings(path) for path in (first, second)]
    _refuse_unmatched(first, second, *settings)
    suites = [suite for suite in settings[0]["data"] if suite in settings[1]["data"]]
    if not suites:
        raise RovrlError(f"{first} and {second} have no suite in common")
    return {
        "first": str(first),
        "second": str(second),
        "suites": {suite: _suite(first, second, suite) for suite in suites},
    }


def _suite(first: Path, second: Path, suite: str) -> dict[str, Any]:
    records = [read_records(records_file(path, suite)) for path in (first, second)]
    found = {}
    for metric in records[0][0]["metrics"] if records[0] else {}:
        tables = []
        for path, rows in zip((first, second), records, strict=True):
            try:
                problems, numbers = values(rows, metric)
            except (ValueError, IndexError):
                raise RovrlError(
                    f"the evaluation of {suite} in {path} is not finished: repeat its command first"
                ) from None
            tables.append(dict(zip(problems, numbers.mean(axis=(0, 2)), strict=True)))
        common = [problem for problem in tables[0] if problem in tables[1]]
        if len(common) != len(tables[0]) or len(common) != len(tables[1]):
            raise RovrlError(f"the evaluation of {suite} is not finished in both: repeat its command first")
        found[metric] = {
            "problems": len(common),
            **paired(*(np.array([table[problem] for problem in common]) for table in tables)),
        }
    return found


def _refuse_unmatched(first: Path, second: Path, a: dict[str, Any], b: dict[str, Any]) -> None:
    different = [name for name in a["decoding"] if a["decoding"][name] != b["decoding"].get(name)]
    if different:
        shown = ", ".join(f"{name} {a['decoding'][name]} and {b['decoding'].get(name)}" for name in different)
        raise RovrlError(
            f"{first} and {second} were decoded differently ({shown}): evaluate both with the same settings"
        )
    if a.get("rewards", {}) != b.get("rewards", {}):
        raise RovrlError(
            f"{first} and {second} were scored by different reward functions, or one was edited in between: evaluate both anew"
        )
    other = [suite for suite, mark in a["data"].items() if b["data"].get(suite, mark) != mark]
    if other:
        raise RovrlError(
            f"{first} and {second} hold different problems under the name {other[0]!r}: evaluate both on the same data"
        )
