"""`rovrl eval --check-gold PATH`: does the scorer accept every gold answer of a file, and refuse another problem's?"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rovrl.tasks import math, toolcall
from rovrl.tasks.answers import final_answer, last_boxed
from rovrl.tasks.data import Row, read_rows
from rovrl.tasks.verifier_pool import Verdict, shared_pool

Progress = Callable[[int], object]


def check(path: Path, on_done: Progress = lambda count: None) -> list[dict[str, Any]]:
    """One line of results per check: how many were asked, how many came out right, and the exceptions with their reason."""
    rows = read_rows(path)
    tools = [row for row in rows if _truth(row) is not None]
    return _check_tools(tools, on_done) if tools else _check_math(rows, on_done)


def _check_math(rows: list[Row], on_done: Progress) -> list[dict[str, Any]]:
    named = [(str(row.get("id", number)), row, str(row.get("answer") or "").strip()) for number, row in enumerate(rows)]
    given = [entry for entry in named if entry[2]]
    empty = [(name, "", "the file has no answer") for name, _, answer in named if not answer]
    lines = []
    boxed = [f"The answer is $\\boxed{{{answer}}}$." for _, _, answer in given]
    answers = [answer for _, _, answer in given]
    started = time.perf_counter()
    verdicts = math.verdicts(boxed, answers, on_done=on_done)
    lines.append(_line("gold answer, boxed, accepted", given, verdicts, empty, time.perf_counter() - started))

    started = time.perf_counter()  # past the shortcut for equal texts: math-verify itself
    alone = shared_pool().verify(
        [(final_answer(text), gold) for text, gold in zip(boxed, answers, strict=True)], on_done=lambda: on_done(1)
    )
    lines.append(_line("the same by math-verify alone", given, alone, [], time.perf_counter() - started))

    solved = [entry for entry in given if last_boxed(str(entry[1].get("solution") or "")) is not None]
    if solved:
        started = time.perf_counter()
        verdicts = math.verdicts([e[1]["solution"] for e in solved], [e[2] for e in solved], on_done=on_done)
        lines.append(_line("worked solution accepted", solved, verdicts, [], time.perf_counter() - started))

    wrong = [(a, b) for a, b in zip(given, given[1:] + given[:1], strict=True) if a[2] != b[2]]
    started = time.perf_counter()
    verdicts = math.verdicts([f"\\boxed{{{b[2]}}}" for _, b in wrong], [a[2] for a, _ in wrong], on_done=on_done)
    refused = [
        Verdict(not v.accepted, "" if not v.accepted else f"accepts {b[2]}")
        for v, (_, b) in zip(verdicts, wrong, strict=True)
    ]
    lines.append(
        _line("another problem's answer refused", [a for a, _ in wrong], refused, [], time.perf_counter() - started)
    )
    return lines


def _check_tools(rows: list[Row], on_done: Progress) -> list[dict[str, Any]]:
    started = time.perf_counter()
    exceptions = []
    for number, row in enumerate(rows):
        truth = str(_truth(row))
        highest = 4.0 if "<tool_call>" in truth else 1.0
        found = toolcall.score(truth, truth)
        if found != highest:
            exceptions.append((str(row.get("id", number)), truth[:60], f"{found} instead of {highest}"))
        on_done(1)
    return [
        {
            "check": "gold turn has the full score",
            "asked": len(rows),
            "right": len(rows) - len(exceptions),
            "seconds": time.perf_counter() - started,
            "exceptions": exceptions,
        }
    ]


def _truth(row: Row) -> object:
    model = row.get("reward_model")
    nested = model.get("ground_truth") if isinstance(model, dict) else None
    truth = row.get("ground_truth", nested)
    return truth if isinstance(truth, str) and ("<tool_call>" in truth or "<response>" in truth) else None


def _line(
    check: str,
    entries: list[tuple[str, Row, str]],
    verdicts: list[Verdict],
    extra: list[tuple[str, str, str]],
    seconds: float,
) -> dict[str, Any]:
    failed = [
        (name, answer, verdict.reason or "math-verify finds no equality")
        for (name, _, answer), verdict in zip(entries, verdicts, strict=True)
        if not verdict.accepted
    ]
    return {
        "check": check,
        "asked": len(entries) + len(extra),
        "right": len(entries) - len(failed),
        "seconds": seconds,
        "exceptions": [*failed, *extra],
    }
