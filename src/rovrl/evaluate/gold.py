"""`rovrl eval --check-gold PATH`: does the scorer accept every gold answer of a file, and refuse another problem's?"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from rovrl.tasks import math, toolcall
from rovrl.tasks.answers import final_answer, last_boxed
from rovrl.tasks.catalog import Row
from rovrl.tasks.verify import Verdict, shared_pool

OnDone = Callable[[int], object]
"""Called with how many more entries have been judged."""


class Check(NamedTuple):
    """A question asked of many rows: (id, answer shown, gold) each, and the judge that answers them."""

    name: str
    entries: list[tuple[str, str, str]]
    judge: Callable[[list[tuple[str, str, str]], OnDone], list[Verdict]]


def checks(rows: list[Row]) -> list[Check]:
    """What can be asked of these rows: tool turns if they hold any, else math answers."""
    tools = [(str(row.get("id", n)), truth, truth) for n, row in enumerate(rows) if (truth := _truth(row)) is not None]
    if tools:
        return [Check("gold turn has the full score", tools, _full_score)]
    given = [(str(row.get("id", n)), row, str(row.get("answer") or "").strip()) for n, row in enumerate(rows)]
    boxed = [(name, f"The answer is $\\boxed{{{answer}}}$.", answer) for name, _, answer in given]
    solved = [(name, str(row.get("solution") or ""), answer) for name, row, answer in given]
    solved = [entry for entry in solved if entry[2] and last_boxed(entry[1]) is not None]
    filled = [entry for entry in boxed if entry[2]]
    wrong = [(a[0], b[1], a[2]) for a, b in zip(filled, filled[1:] + filled[:1], strict=True) if a[2] != b[2]]
    asked = [
        Check("gold answer, boxed, accepted", boxed, _accepted),
        Check("the same by math-verify alone", filled, _alone),
        Check("worked solution accepted", solved, _accepted),
        Check("another problem's answer refused", wrong, _refused),
    ]
    return [check for check in asked if check.entries]


def run(check: Check, on_done: OnDone = lambda count: None) -> dict[str, Any]:
    """How many entries of a check came out right, how long it took, and the exceptions with their reason."""
    started = time.perf_counter()
    verdicts = check.judge(check.entries, on_done)
    exceptions = [
        (name, gold[:80], verdict.reason or ("math-verify finds no equality" if gold else "the file has no answer"))
        for (name, _, gold), verdict in zip(check.entries, verdicts, strict=True)
        if not verdict.accepted
    ]
    return {
        "check": check.name,
        "asked": len(check.entries),
        "right": len(check.entries) - len(exceptions),
        "seconds": time.perf_counter() - started,
        "exceptions": exceptions,
    }


def _accepted(entries: list[tuple[str, str, str]], on_done: OnDone) -> list[Verdict]:
    return math.verdicts([shown for _, shown, _ in entries], [gold for _, _, gold in entries], on_done=on_done)


def _refused(entries: list[tuple[str, str, str]], on_done: OnDone) -> list[Verdict]:
    found = _accepted(entries, on_done)
    return [
        Verdict(not verdict.accepted, f"accepts {last_boxed(shown)}" if verdict.accepted else "")
        for (_, shown, _), verdict in zip(entries, found, strict=True)
    ]


def _alone(entries: list[tuple[str, str, str]], on_done: OnDone) -> list[Verdict]:
    """Past the shortcut for equal texts and integers: math-verify itself."""
    pairs = [(final_answer(shown), gold) for _, shown, gold in entries]
    return shared_pool().verify(pairs, on_done=lambda: on_done(1))


def _full_score(entries: list[tuple[str, str, str]], on_done: OnDone) -> list[Verdict]:
    verdicts = []
    for _, shown, truth in entries:
        highest = 4.0 if "<tool_call>" in truth else 1.0
        found = toolcall.score(shown, truth)
        verdicts.append(Verdict(found == highest, "" if found == highest else f"{found} instead of {highest}"))
        on_done(1)
    return verdicts


def _truth(row: Row) -> str | None:
    model = row.get("reward_model")
    nested = model.get("ground_truth") if isinstance(model, dict) else None
    truth = row.get("ground_truth", nested)
    return truth if isinstance(truth, str) and ("<tool_call>" in truth or "<response>" in truth) else None
