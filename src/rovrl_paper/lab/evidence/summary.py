"""The head of the evidence: the main table over its worlds, and the sceptic's questions with their answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from rovrl_paper.lab.accuracy import from_row, paired_difference
from rovrl_paper.lab.compare import final_verdicts, percent, points, table, title
from rovrl_paper.lab.evidence.plan import EVERYONE, GUARDED, Setting, Table
from rovrl_paper.lab.evidence.questions import QUESTIONS, Question
from rovrl_paper.lab.methods import METHODS

Run = dict[str, Any]
BEYOND = "†"
"""Set behind the name of every method that the paper does not have among its own."""


def seed(run: Run) -> int:
    """The seed of a finished run."""
    return run["job"]["seed"]


def runs_of(setting: Setting, method: str, rows: Sequence[Run], seeds: int | None = None) -> list[Run]:
    """The finished runs of a method in a setting, in the order of seeds; `seeds`: at most that many, the first ones."""
    mine = [r for r in of_one_start(setting, rows) if r["job"]["method"] == method]
    return sorted((r for r in mine if seeds is None or seed(r) <= seeds), key=seed)


def of_one_start(setting: Setting, rows: Sequence[Run]) -> list[Run]:
    """The runs of a setting that start from the same weights as most: a warm-up differs from one processor to another.

    Weights are recognised by their verdicts on the held-out problems before training.
    """
    mine = [(from_row(r["evaluations"][0]).tobytes(), r) for r in rows if r["setting"] == setting.name]
    usual = Counter(start for start, _ in mine).most_common(1)
    return [r for start, r in mine if start == usual[0][0]]


def name(method: str) -> str:
    """A method's title, marked where it goes beyond the paper."""
    return title(method) + BEYOND * METHODS[method].beyond_paper


def paired(ours: Sequence[Run], theirs: Sequence[Run]) -> str:
    """The difference over the seeds that both have finished, paired by seed and problem; "" where there is none."""
    both, most = set(map(seed, ours)) & set(map(seed, theirs)), max(len(ours), len(theirs))
    if not both:
        return ""
    mine, others = ([r for r in runs if seed(r) in both] for runs in (ours, theirs))
    notes = [f"{len(both)} of {most} seeds"] if len(both) < most else []
    if not np.array_equal(final_verdicts(mine, 0), final_verdicts(others, 0)):
        notes.append("from other first weights")  # a warm-up made on another processor differs by its rounding
    found = points(paired_difference(final_verdicts(mine), final_verdicts(others)))
    return f"{found} ({', '.join(notes)})" if notes else found


def main_table(plans: Sequence[Table], rows: Sequence[Run]) -> str:
    """Final accuracy of every method in every world of the main table."""
    worlds = [plan for plan in plans if plan.methods == EVERYONE]
    lines = [
        f"### The main table: accuracy after training, %, {worlds[0].seeds} seeds\n",
        f"| method | {' | '.join(plan.setting.title for plan in worlds)} |",
        "|---" * (len(worlds) + 1) + "|",
    ]
    for method in EVERYONE:
        cells = [_cell(plan, runs_of(plan.setting, method, rows, plan.seeds)) for plan in worlds]
        lines.append(f"| {name(method)} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"{BEYOND} beyond the paper: its reward channel with settings of our own.\n"])


def answers(rows: Sequence[Run]) -> str:
    """The sceptic's questions, each with the differences that the finished runs allow."""
    lines = [f"### Questions about {title(GUARDED)}\n", "| question | where | minus | points |", "|---|---|---|---|"]
    for question in QUESTIONS:
        lines += _answer(question, rows)
    return "\n".join(lines) + "\n"


def _answer(question: Question, rows: Sequence[Run]) -> Iterator[str]:
    asked = question.asked
    for ours, theirs in question.answers:
        found = paired(runs_of(ours, GUARDED, rows), runs_of(*theirs, rows))
        other = title(theirs.method) + (f" on {theirs.setting.title}" if theirs.setting != ours else "")
        yield f"| {asked} | {ours.title} | {other} | {found or 'not run yet'} |"
        asked = ""


def _cell(plan: Table, runs: Sequence[Run]) -> str:
    if not runs:
        return "not run yet"
    (row,) = table(runs, [runs[0]["job"]["method"]])
    few = f" ({len(runs)} of {plan.seeds} seeds)" if len(runs) < plan.seeds else ""
    return percent(row.after) + few
