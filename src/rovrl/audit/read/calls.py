"""What recorded steps say about the servers that scored them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from rovrl.audit.read.rows import Note
from rovrl.errors import RovrlError

_OPEN = "/breaker_open"


def server_notes(files: Sequence[Path]) -> list[Note]:
    """A note for each server with retries, missing scores or an open breaker in these record files; [] if all went well."""
    found: dict[str, dict[int, dict[str, float]]] = {}
    for file in files:
        for step, calls in _calls(file):
            for name in (key.removesuffix(_OPEN) for key in calls if key.endswith(_OPEN)):
                found.setdefault(name, {})[step] = {
                    key.removeprefix(f"{name}/"): value for key, value in calls.items() if key.startswith(f"{name}/")
                }
    sentences = [_sentence(name, steps) for name, steps in found.items()]
    return [Note("reward_server", sentence) for sentence in sentences if sentence]


def _calls(file: Path) -> Iterator[tuple[int, dict[str, float]]]:
    """The step of a file with the numbers of its note; nothing of a damaged one, which the audit has told already."""
    from rovrl import records  # with Parquet, which other dumps do not need
    from rovrl.records.schema import CALLS

    with suppress(RovrlError, ValueError):
        for step, notes in records.read_notes(file, report=lambda _: None):
            calls = notes.get(CALLS)
            if isinstance(calls, dict):
                yield step, {name: value for name, value in calls.items() if isinstance(value, int | float)}


def _sentence(name: str, steps: dict[int, dict[str, float]]) -> str:
    def of(key: str) -> np.ndarray:
        return np.array([calls.get(key, 0.0) for calls in steps.values()])

    missing, retries, opened = of("none").mean(), of("retries").sum(), int((of("breaker_open") > 0).sum())
    if not (missing or retries or opened):
        return ""
    reasons = {
        key.removeprefix("none/"): of(key).mean() for key in next(iter(steps.values())) if key.startswith("none/")
    }
    told = ", ".join(f"{reason} {share:.2%}" for reason, share in sorted(reasons.items(), key=lambda r: -r[1]) if share)
    slowest = int(of("seconds/p95").argmax())
    parts = [
        f"{name} gave no score for {missing:.2%} of the responses" + (f" ({told})" if told else ""),
        f"{retries:,.0f} of {of('requests').sum():,.0f} requests were sent again",
        f"the breaker was open after {opened:,} of {len(steps):,} steps",
        f"the slowest step was {list(steps)[slowest]} (95 % of its requests within {of('seconds/p95')[slowest]:.2g} s)",
    ]
    return "; ".join(parts)
