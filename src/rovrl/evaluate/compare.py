"""`rovrl eval --compare A B`: two finished evaluations, paired problem by problem."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rovrl.errors import RovrlError
from rovrl.evaluate.statistics import paired
from rovrl.evaluate.store import read_records, read_settings, records_file, values


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
