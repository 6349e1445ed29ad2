"""`rovrl stress alignment`: the options, the table and the picture."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from rovrl.errors import RovrlError
from rovrl.output.progress import progress_bar
from rovrl_paper.stress.alignment import CONTENDERS, Row, measure
from rovrl_paper.stress.worlds import ASIDE, SIMULATED, Knobs

USUAL = [name for name in SIMULATED if name not in ASIDE]
HELP = {
    "prompts": "alignment: prompts in a batch",
    "group": "alignment: responses to a prompt",
    "rate": "alignment: chance of a fault, in worlds that name none",
    "size": "alignment: how far a fault moves a reward",
    "contrast": "alignment: how much better a right answer is scored",
    "noise": "alignment: standard deviation of the score around that",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `rovrl stress alignment`."""
    for knob in fields(Knobs):
        kind = int if isinstance(knob.default, int) else float
        parser.add_argument(f"--{knob.name}", type=kind, default=knob.default, help=f"{HELP[knob.name]} (%(default)g)")
    parser.add_argument(
        "--world", help=f"alignment: some of {', '.join(SIMULATED)} (default: all but {', '.join(ASIDE)})"
    )
    parser.add_argument("--methods", help=f"alignment: some of {', '.join(CONTENDERS)} (default: all)")
    parser.add_argument("--seeds", type=int, default=5, help="alignment: batches per world (default: 5)")
    parser.add_argument("--png", type=Path, help="alignment: write the picture there")


def run(args: argparse.Namespace) -> int:
    """Prints the table and writes the picture; 0."""
    knobs = _knobs(args)
    worlds, methods = _chosen("--world", args.world, SIMULATED, USUAL), _chosen("--methods", args.methods, CONTENDERS)
    if args.seeds < 1:
        raise RovrlError(f"--seeds must be at least 1, not {args.seeds}")
    with progress_bar("alignment") as progress:
        rows = measure(worlds, methods, args.seeds, knobs, progress)
    if args.json:
        print(json.dumps([row._asdict() | {"faults_rejected": _number(row.faults_rejected)} for row in rows], indent=1))
    else:
        print(table(rows, methods, args.seeds, knobs))
    if args.png:
        from rovrl_paper.stress.pictures import alignment_picture

        alignment_picture(rows, methods, args.png)
        print(f"wrote {args.png}")
    return 0


def table(rows: Sequence[Row], methods: Sequence[str], seeds: int, knobs: Knobs) -> str:
    """The alignments as Markdown: the best of each world in bold, and what the guarded method rejected."""
    titles = [CONTENDERS[name][0] for name in methods]
    lines = [
        f"{knobs.prompts} prompts, groups of {knobs.group}; the mean of {seeds} batches (seeds 1 to {seeds}), "
        f"largest half-width of a 95 % interval {_widest(rows):.3f}.\n",
        "| world | " + " | ".join(titles) + " | faults rejected | honest rejected |",
        "|---" * (len(titles) + 3) + "|",
    ]
    for row in rows:
        best = max(row.alignment[name].value for name in methods)
        cells = [_cell(row.alignment[name].value, best) for name in methods]
        share = "" if math.isnan(row.faults_rejected) else f"{row.faults_rejected:.1%}"
        lines.append(f"| {SIMULATED[row.world][0]} | {' | '.join(cells)} | {share} | {row.honest_rejected:.2%} |")
    return "\n".join(lines)


def _cell(value: float, best: float) -> str:
    return f"**{value:.2f}**" if f"{value:.2f}" == f"{best:.2f}" else f"{value:.2f}"


def _widest(rows: Sequence[Row]) -> float:
    return max((e.high - e.low) / 2 for row in rows for e in row.alignment.values())


def _chosen(option: str, words: str | None, known: object, usual: Sequence[str] | None = None) -> list[str]:
    names = list(known)  # pyright: ignore[reportArgumentType, reportCallIssue]
    if words is None:
        return list(usual or names)
    wanted = [word.strip() for word in words.split(",") if word.strip()]
    unknown = [word for word in wanted if word not in names]
    if unknown or not wanted:
        raise RovrlError(f"{option} {words!r}: choose from {', '.join(names)} (several: separated by commas)")
    return wanted


def _knobs(args: argparse.Namespace) -> Knobs:
    knobs = Knobs(**{knob.name: getattr(args, knob.name) for knob in fields(Knobs)})
    if knobs.prompts < 1 or knobs.group < 2:
        raise RovrlError(f"--prompts must be at least 1 and --group at least 2, not {knobs.prompts} and {knobs.group}")
    if not 0 <= knobs.rate <= 1:
        raise RovrlError(f"--rate must be between 0 and 1, not {knobs.rate:g}")
    for name in ("size", "contrast", "noise"):
        if not math.isfinite(getattr(knobs, name)):
            raise RovrlError(f"--{name} must be a finite number, not {getattr(knobs, name):g}")
    return knobs


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
