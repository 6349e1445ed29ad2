"""The report of a sweep: the main table over its worlds, the sceptic's questions with their answers, tables, learning curves.

    python -m rovrl_paper.lab.evidence.report evidence results/embedded docs/evidence.md
    python -m rovrl_paper.lab.evidence.report rollouts results/embedded docs/rollouts.md

puts the tables of results/embedded/runs.jsonl, or those of corrected rollouts among them, between two marks in the page.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rovrl.output.chart import STYLE, line_chart
from rovrl.output.files import read_lines, write_text
from rovrl_paper.lab.accuracy import final_verdicts, from_row, paired_difference, percent, points, table, title
from rovrl_paper.lab.evidence.plan import (
    COARSE,
    EVERYONE,
    GUARDED,
    QUESTIONS,
    ROLLOUTS,
    SWEEPS,
    Question,
    Setting,
    Table,
)
from rovrl_paper.lab.methods import METHODS
from rovrl_paper.lab.page import accuracy_series

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


NOTE = """Generated by `rovrl train --sweep {name} --out {out}` from `runs.jsonl` beside it (one line per run:
settings, learning curve, verdict on every held-out problem, averages of the diagnostics, versions). The same command goes on
where it stopped and writes this again; `docs/evidence.md` explains it.
"""
LOGGED = {"clipped": "clip_ratio/region_mean", "gradient": "grad_norm", "disagreement": "rovr/weight_disagreement"}
"""Averages over a run: column -> metric."""
LOGGED_BY_SOME = {"rejected": "rovr/rejected", "left out": "rovr/rollout_left_out"}
"""Shown as well where a method of the table logs it."""


def write_report(sweep: str, out: Path, rows: Sequence[Run]) -> Path:
    """Writes OUT/README.md with all tables, and the curves of each as an SVG beside it; returns the former."""
    for plan in SWEEPS[sweep].tables:
        runs = _runs(plan, rows)
        if runs:
            write_text(out / plan.figure, _curves(plan, runs))
    note = NOTE.format(name=sweep, out=SWEEPS[sweep].results)
    return write_text(out / "README.md", f"# {SWEEPS[sweep].heading}\n\n{note}\n{tables(sweep, rows)}")


def tables(sweep: str, rows: Sequence[Run]) -> str:
    """Every table of a sweep that the finished runs allow, and what of the plan is missing."""
    plans = SWEEPS[sweep].tables
    planned = len({(t.setting.name, m, s) for t in plans for m in t.methods for s in range(t.seeds)})
    if not rows:
        return f"None of {planned} planned runs is finished.\n"
    made = sorted({", ".join(f"{k} {v}" for k, v in row["versions"].items()) for row in rows})
    hours = sum(row["cpu_seconds"] for row in rows) / 3600
    parts = [f"{len(rows)} of {planned} planned runs, {hours:.1f} hours of one core. Made with {'; '.join(made)}.\n"]
    if sweep == "evidence":
        parts += [main_table(plans, rows), answers(rows)]
    return "\n".join([*parts, *(_section(plan, _runs(plan, rows)) for plan in plans)])


def update_page(sweep: str, page: Path, rows: Sequence[Run]) -> str:
    """The page's text with the tables of a sweep made again from `rows`; nothing is written."""
    return between(SWEEPS[sweep].mark, page, tables(sweep, rows))


def update_rollouts(page: Path, rows: Sequence[Run]) -> str:
    """The text of docs/rollouts.md with the tables of corrected rollouts made again from `rows`; nothing is written."""
    return between("rollouts", page, "\n".join(_section(plan, _runs(plan, rows)) for plan in (*ROLLOUTS, *COARSE)))


def between(mark: str, page: Path, text: str) -> str:
    """The page's text with `text` between the two marks of that name."""
    begin, end = (f"<!-- {mark}: {word} -->" for word in ("begin", "end"))
    before, _, rest = page.read_text().partition(begin)
    after = rest.partition(end)[2]
    return f"{before}{begin}\n\n{text}\n{end}{after}"


def _runs(plan: Table, rows: Sequence[Run]) -> dict[str, list[Run]]:
    """The finished runs of a table by method."""
    found = {method: runs_of(plan.setting, method, rows, plan.seeds) for method in plan.methods}
    return {method: runs for method, runs in found.items() if runs}


def _section(plan: Table, runs: dict[str, list[Run]]) -> str:
    """One table: a row per method over its finished seeds, differences over the seeds that both sides have."""
    if not runs:
        return f"### {plan.title}: {'; '.join(map(title, plan.methods))}\n\nNot run yet.\n"
    columns = ["method", "accuracy, %", "sd", f"minus {title(plan.methods[0])}, points", "curve, %", *_logged(runs)]
    lines = [f"### {plan.title}, {plan.seeds} seeds\n", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    lines += [_line(plan, method, runs) for method in runs]
    found = [_difference(ours, theirs, runs) for ours, theirs in plan.pairs]
    lines += ["", *filter(None, found)] if any(found) else []
    absent = [title(m) for m in plan.methods if m not in runs]
    notes = f"\nNot run yet: {'; '.join(absent)}.\n" if absent else ""
    return "\n".join(lines) + "\n" + notes


def _line(plan: Table, method: str, runs: dict[str, list[Run]]) -> str:
    (row,) = table(runs[method], [method])
    few = f" ({len(row.seeds)} of {plan.seeds} seeds)" if len(row.seeds) < plan.seeds else ""
    sd = "" if row.sd != row.sd else f"{100 * row.sd:.1f}"
    difference = "" if method == plan.methods[0] else paired(runs[method], runs.get(plan.methods[0], []))
    cells = [name(method) + few, percent(row.after), sd, difference, _curve_text(runs[method])]
    return "| " + " | ".join(cells + [_average(runs[method], metric) for metric in _logged(runs).values()]) + " |"


def _difference(ours: str, theirs: str, runs: dict[str, list[Run]]) -> str:
    found = paired(runs.get(ours, []), runs.get(theirs, []))
    return f"- {title(ours)} minus {title(theirs)}: {found}" if found else ""


def _logged(runs: dict[str, list[Run]]) -> dict[str, str]:
    told = {name for mine in runs.values() for run in mine for name in run["averages"]}
    return LOGGED | {column: name for column, name in LOGGED_BY_SOME.items() if name in told}


def _curve_text(runs: Sequence[Run]) -> str:
    curve = accuracy_series("", [run["evaluations"] for run in runs])
    return " ".join(f"{100 * y:.1f}" for y in curve.y)


def _average(runs: Sequence[Run], name: str) -> str:
    values = [run["averages"][name] for run in runs if name in run["averages"]]
    return f"{sum(values) / len(values):.2f}" if values else ""


def _curves(plan: Table, runs: dict[str, list[Run]]) -> str:
    lines = [accuracy_series(title(m), [r["evaluations"] for r in mine]) for m, mine in runs.items()]
    svg = str(line_chart(lines, plan.title, "generation", "accuracy", percent=True))
    opening = '<svg xmlns="http://www.w3.org/2000/svg" style="background:white;color:black" '
    return svg.replace("<svg ", opening, 1).replace(">", f"><style>{STYLE}</style>", 1)


def main(words: Sequence[str]) -> int:
    """Puts the tables of a results directory into a page."""
    if len(words) != 3 or words[0] not in (*SWEEPS, "rollouts"):
        print(
            f"usage: python -m rovrl_paper.lab.evidence.report {'|'.join((*SWEEPS, 'rollouts'))} RESULTS PAGE",
            file=sys.stderr,
        )
        return 2
    sweep, out, page = words[0], Path(words[1]), Path(words[2])
    rows = read_lines(out / "runs.jsonl")
    write_text(page, update_rollouts(page, rows) if sweep == "rollouts" else update_page(sweep, page, rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
