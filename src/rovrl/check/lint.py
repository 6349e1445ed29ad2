"""`rovrl lint`: what a reward function does that will hurt a training run, found by calling it on saved completions."""

from __future__ import annotations

import argparse
import json
import math
import sys
import textwrap
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rovrl.audit.describe.description import variance_share
from rovrl.audit.measure.statistics import group_table
from rovrl.audit.read.notes import Notes
from rovrl.audit.read.rollouts import Rollouts
from rovrl.audit.read.tables import pa
from rovrl.check.completions import joined, read_completions
from rovrl.config import RewardChannel
from rovrl.errors import RovrlError
from rovrl.integrations.rewards import Answer, Completions, Function, call, is_number, load, takes_one
from rovrl.output.progress import Progress, progress_bar, silent
from rovrl.output.terminal import visible

EXAMPLE = """\
examples:
  rovrl lint my_rewards:accuracy --completions outputs/run        # completions of an earlier run
  rovrl lint my_rewards.py:accuracy my_rewards.py:brevity --completions samples.jsonl --limit 2000
  rovrl lint my_rewards:accuracy --completions outputs/run --data prompts.jsonl    # it reads a column of the data

A function (also an asynchronous one, or a class of rewards) is called as TRL calls it (prompts, completions, other columns
of the dump by name) or, if it takes `solution_str`, as verl does. It is your code: it runs here, with your rights.
exit status: 0 nothing found, 1 findings, 2 unusable input.
"""
ODD = ("", " ", "\n" * 50, "\u0000\u202e \U0001f642", "9" * 5000, "\\boxed{")
"""Completions that policies do produce."""
PATIENCE = 60.0
"""Seconds: a function that took longer is called again on as many responses as fit into this."""
TIED, DOMINATED = 0.9, 0.02
"""Shares of groups above which ties and tails are findings, as in `rovrl audit`."""
LOOKED_AT = 64
"""Completions that are tried one by one."""
WIDTH = 100
"""Letters in a line."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("functions", nargs="+", metavar="FUNCTION", help="module:function or file.py:function")
    parser.add_argument(
        "--completions", required=True, metavar="PATH", help="saved rollouts, or any table of completions"
    )
    parser.add_argument(
        "--data",
        metavar="FILE",
        help="the training data: its columns (answer, ...) are joined to the completions by prompt",
    )
    parser.add_argument("--limit", type=int, default=512, metavar="N", help="responses to try (512)")
    parser.add_argument("--chat", action="store_true", help="give prompts and completions as lists of messages")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Runs the command; the exit status."""
    if args.limit < 2:
        raise RovrlError(f"--limit must be at least 2, not {args.limit}")
    functions = {name: load(name) for name in args.functions}
    notes = Notes()
    rows = read_completions(Path(args.completions), args.limit, notes)
    for note in notes.all():
        print(visible(note.sentence), file=sys.stderr)
    if args.data:
        whole, rows = len(rows), joined(rows, Path(args.data))
        if len(rows) < whole:
            print(
                f"{whole - len(rows):,} of {whole:,} responses have no prompt of {args.data}: left out", file=sys.stderr
            )
    with progress_bar("lint") as progress:
        found = [lint(name, function, rows, args.chat, progress) for name, function in functions.items()]
    parts = shares(found, rows)
    if args.json:
        print(json.dumps({"functions": [f.to_dict() for f in found], "share_of_variance": parts}, allow_nan=False))
    else:
        print(visible("\n\n".join(show(f) for f in found)))
        if parts:
            print("\nShare of the variance of their plain sum, within groups")
            print(
                "\n".join(
                    f"  {name:<40} {'-' if part is None else f'{100 * part:.0f} %'}" for name, part in parts.items()
                )
            )
    return int(any(f.findings for f in found))


@dataclass
class Linted:
    """What was found about one reward function."""

    name: str
    responses: int
    groups: int
    findings: dict[str, str] = field(default_factory=dict)
    """code -> sentence"""
    seconds: float = 0.0
    """Per response."""
    low: float | None = None
    high: float | None = None
    distinct: int = 0
    missing: int = 0
    tied: float = 0.0
    dominated: int = 0
    spread: float | None = None
    """The usual spread of its values within a group."""
    fits: str = ""
    """Which estimator and bound fit, in a sentence."""
    values: list[float] = field(default_factory=list, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """As plain values, without the single rewards."""
        return {name: value for name, value in asdict(self).items() if name != "values"}


def lint(name: str, function: Function, rows: Completions, chat: bool = False, progress: Progress = silent) -> Linted:
    """A dry run of `function` on `rows`."""
    found = Linted(name, len(rows), len(set(rows.group)))
    progress(0, 3, name)
    answer = call(function, rows, chat)
    progress(1, 3, name)
    if answer.error:
        found.findings["raises"] = f"it raised {answer.error}{where(answer.error, function, rows, chat)}"
        return found
    if answer.no_list:
        found.findings["wrong_count"] = f"it returned one {answer.no_list}, not a list with one reward per completion"
        return found
    if len(answer.values) != len(rows):
        found.findings["wrong_count"] = f"it returned {len(answer.values):,} values for {len(rows):,} completions"
        return found
    found.seconds, found.values = answer.seconds / max(len(rows), 1), answer.numbers
    _kinds(found, answer)
    _repeatable(found, function, rows, answer, chat)
    progress(2, 3, name)
    _odd(found, function, rows, chat)
    progress(3, 3, name)
    _statistics(found, rows)
    return found


def shares(several: list[Linted], rows: Completions) -> dict[str, float | None]:
    """Each function's share of the variance of their plain sum within groups."""
    usable = [f for f in several if f.values]
    if len(usable) < 2:
        return {}
    with np.errstate(over="ignore"):
        total = np.nansum([f.values for f in usable], axis=0)
    rollouts = _rollouts(total, rows)
    table = group_table(rollouts, RewardChannel(), silent)[0]
    group = np.repeat(np.arange(rollouts.groups), rollouts.size)
    order = _order(rows)
    return {f.name: variance_share(group, rollouts.reward, np.array(f.values)[order], table) for f in usable}


def show(found: Any) -> str:
    """One function as text."""
    from rovrl.audit.show.summary import counted

    lines = [f"{found.name}: {counted(found.responses, 'response')} in {counted(found.groups, 'group')}"]
    if found.values:
        span = (
            "no finite value"
            if found.low is None
            else f"{found.low:.4g} to {found.high:.4g}, {found.distinct:,} distinct"
        )
        lines.append(f"  values   {span}; {found.missing:,} missing")
        lines.append(f"  groups   {100 * found.tied:.0f} % tied, {found.dominated:,} dominated")
        spent = f"{1e3 * found.seconds:.3g}" if found.seconds > 1e-6 else "less than 0.001"
        lines.append(f"  time     {spent} ms per response")
    lines += [_wrap(f"[{code}] {sentence}") for code, sentence in found.findings.items()]
    lines += [_wrap(f"fits: {found.fits}")] if found.fits else []
    return "\n".join(lines if found.findings else [*lines, "  nothing found"])


def _wrap(line: str) -> str:
    return textwrap.fill(line, WIDTH, initial_indent="  ", subsequent_indent="    ")


def where(error: str, function: Function, rows: Completions, chat: bool) -> str:
    """How many single completions raise, and if all do, what would help; to be put after the error."""
    looked = min(len(rows), LOOKED_AT)
    bad = [k for k in range(looked) if call(function, rows.take([k]), chat).error]
    if len(bad) < looked:
        first = f", the first is number {bad[0] + 1}" if bad else ""
        return f"; alone, {len(bad)} of the first {looked} completions raise{first}"
    return "; " + _why(error, function, rows, chat)


def _why(error: str, function: Function, rows: Completions, chat: bool) -> str:
    if not takes_one(function) and not call(function, rows.take([0]), not chat).error:
        return "it takes plain texts: leave out --chat" if chat else "it takes lists of messages: try --chat"
    if "unexpected keyword argument" in error:
        return "trainers give every column of the data by its name, and more: let it take **kwargs"
    if ("missing" in error and "required" in error) or error.startswith("KeyError"):
        found = f"the dump has the columns {', '.join(sorted(rows.columns)) or 'prompt and completion alone'}"
        return f"{found}; for a column of the training data, join it: --data FILE"
    return "every completion alone raises too"


def _kinds(found: Linted, answer: Answer) -> None:
    strange = [v for v in answer.values if v is not None and not is_number(v)]
    if strange:
        found.findings["not_numbers"] = (
            f"{len(strange):,} values are not numbers, the first a {type(strange[0]).__name__}"
        )
    nothing = sum(v is None for v in answer.values)
    broken = sum(is_number(v) and not math.isfinite(float(v)) for v in answer.values)
    found.missing = nothing + broken + len(strange)
    if broken:
        are = "value is" if broken == 1 else "values are"
        found.findings["nonfinite"] = f"{broken:,} {are} NaN or infinite: a NaN in a mean makes a whole group NaN"
    if nothing == len(answer.values):
        found.findings["all_none"] = (
            "every value is None: the function scored nothing, perhaps because a column is missing"
        )


def _repeatable(found: Linted, function: Function, rows: Completions, answer: Answer, chat: bool) -> None:
    fits = int(len(rows) * PATIENCE / max(answer.seconds, 1e-9))
    count = min(len(rows), max(2, fits))
    some, first = rows.take(list(range(count))), answer.numbers[:count]
    again = call(function, some, chat).numbers
    changed = _differing(first, again)
    if changed:
        found.findings["not_deterministic"] = f"{changed:,} of {count:,} values differ when it is called again"
        return
    other = call(function, some.take(list(range(count))[::-1]), chat).numbers[::-1]
    moved = _differing(first, other)
    if moved:
        found.findings["depends_on_batch"] = f"{moved:,} of {count:,} values change with the order of the batch"


def _odd(found: Linted, function: Function, rows: Completions, chat: bool) -> None:
    """Empty, endless and strange texts, with the first row's prompt and columns."""
    bad = []
    for text in ODD:
        row = rows.take([0])
        row.completion = [text]
        answer = call(function, row, chat)
        if answer.error or len(answer.values) != 1:
            bad.append(f"{text[:12]!r} ({answer.error or f'{len(answer.values)} values'})")
    if bad:
        found.findings["fails_on_odd_texts"] = f"it fails on {', '.join(bad)}: policies do produce such texts"


def _statistics(found: Linted, rows: Completions) -> None:
    known = np.array([v for v in found.values if not math.isnan(v)])
    if not len(known):
        return
    found.low, found.high, found.distinct = float(known.min()), float(known.max()), len(np.unique(known))
    rollouts = _rollouts(np.array(found.values), rows)
    table = group_table(rollouts, RewardChannel(), silent)[0]
    judged = ~table.single
    found.dominated = int((table.dominating > 0).sum())
    found.tied = float(table.tied[judged].mean()) if judged.any() else 0.0
    found.spread = _middle(table.deviation[table.untied])
    if found.distinct == 1:
        found.findings["constant"] = f"every value is {found.low:g}: it teaches nothing on these completions"
    elif judged.any() and found.tied > TIED:
        found.findings["ties"] = f"{100 * found.tied:.0f} % of the groups are tied: they carry no signal"
    if judged.any() and found.dominated / judged.sum() > DOMINATED:
        found.findings["tails"] = f"in {found.dominated:,} of {judged.sum():,} groups a few values dominate the others"
    found.fits = _fits(found)


def _middle(values: np.ndarray) -> float | None:
    """The median, also of numbers whose sum would overflow; None of nothing."""
    if not len(values):
        return None
    low, high = (float(np.quantile(values, 0.5, method=side)) for side in ("lower", "higher"))
    return 0.5 * low + 0.5 * high


def _fits(found: Linted) -> str:
    if found.spread is None:
        return "no group has different values: no estimator can make a signal out of them"
    wide = f"the usual spread within a group is {found.spread:.3g}"
    bound = f"kappa = 1 is {1 / found.spread:.2g} spreads" if found.spread < 0.5 else "kappa = 1 is of that order"
    if "tails" in found.findings:
        advice = (
            f"{wide} and a few values lie far outside: clamp the reward if its range is known, else use credit; {bound}"
        )
        narrow = f'; credit_bound="adaptive" (about {2 * found.spread:.2g}) and credit_floor="adaptive" fit better'
        return advice + (narrow if found.spread < 0.5 else "")
    if found.distinct <= 10:
        return f"{found.distinct} levels without a far one: any of the estimators will do; {wide}"
    return f"{wide}, nothing far outside: any of the estimators will do; {bound}"


def _rollouts(values: np.ndarray, rows: Completions) -> Rollouts:
    """The values as groups of an audit."""
    order = _order(rows)
    names = [rows.group[k] for k in order]
    starts = [k for k in range(len(names)) if k == 0 or names[k] != names[k - 1]]
    count = len(starts)
    return Rollouts(
        kind="lint",
        files=[],
        reward=np.asarray(values, dtype=np.float64)[order],
        start=np.array([*starts, len(names)]),
        step=np.zeros(count, dtype=np.int64),
        label=pa.array([names[k] for k in starts], type=pa.large_string()),
        file=np.zeros(len(names), dtype=np.int32),
        row=np.arange(len(names)),
    )


def _order(rows: Completions) -> list[int]:
    first = {name: k for k, name in reversed(list(enumerate(rows.group)))}
    return sorted(range(len(rows)), key=lambda k: first[rows.group[k]])


def _differing(one: list[float], two: list[float]) -> int:
    if len(one) != len(two):
        return len(one)
    with np.errstate(over="ignore"):
        return int((~np.isclose(one, two, rtol=1e-6, atol=1e-9, equal_nan=True)).sum())
