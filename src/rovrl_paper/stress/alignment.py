"""`rovrl stress alignment`: how much of an update points where it should, in worlds whose truth is known."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rovrl import baselines
from rovrl.advantage import ADVANTAGES, explain
from rovrl.config import RewardChannel
from rovrl.errors import RovrlError, require
from rovrl.output.chart import COLOURS
from rovrl.output.intervals import Estimate, bootstrap, draws
from rovrl.output.progress import Progress, progress_bar
from rovrl_paper.worlds import ASIDE, SIMULATED, Knobs, Truth, draw

ADAPTIVE = RewardChannel.adaptive()
GUARDED = RewardChannel.guarded()
Contender = Callable[[Tensor], Tensor]
REPLICATES, SEED = 2000, 20250904


def _ours(channel: RewardChannel, method: str = "credit") -> Contender:
    return lambda rewards: ADVANTAGES[method](rewards, channel)


def _peer(name: str) -> Contender:
    return lambda rewards: baselines.ADVANTAGES[name](rewards, RewardChannel())


CONTENDERS: Mapping[str, tuple[str, Contender]] = {
    "grpo": ("GRPO", _ours(RewardChannel(), "grpo")),
    "dr_grpo": ("Dr. GRPO", _peer("dr_grpo")),
    "winsor": ("winsorised", _peer("winsor")),
    "normal_scores": ("normal scores", _peer("normal_scores")),
    "clipped": ("clipped", _peer("clipped")),
    "median_mad": ("median, MAD", _peer("median_mad")),
    "credit": ("credit, κ = 1", _ours(RewardChannel())),
    "adaptive": ("adaptive", _ours(ADAPTIVE)),
    "guarded": ("guarded", _ours(GUARDED)),
}
"""Name -> its title, and how it turns rewards [prompt, response] into advantages."""


class Row(NamedTuple):
    """One world: the alignment of each method, and how the guarded one's rejections fit the truth."""

    world: str
    alignment: dict[str, Estimate]
    honest_rejected: float
    """The share of honest responses that were rejected, over all seeds."""
    faults_rejected: float
    """The share of faults that were; NaN where there are none."""


def alignment(advantages: Tensor, verdicts: np.ndarray) -> float:
    """The cosine between a batch's advantages and the centred verdicts: 1 where every update is right, 0 where none is."""
    a = advantages.double().numpy().reshape(verdicts.shape)
    b = verdicts - verdicts.mean(-1, keepdims=True)
    return float((a * b).sum() / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-300))


def measure(
    worlds: Sequence[str], methods: Sequence[str], seeds: int, knobs: Knobs, progress: Progress = lambda *_: None
) -> list[Row]:
    """Every method in every world, the means over `seeds` batches with their 95 % bootstrap intervals."""
    rows = []
    for done, world in enumerate(worlds):
        truths = [draw(world, seed, knobs) for seed in range(1, seeds + 1)]
        found = {
            name: [alignment(CONTENDERS[name][1](torch.from_numpy(t.rewards)), t.verdicts) for t in truths]
            for name in methods
        }
        means = {
            name: bootstrap(np.array(values), draws(seeds, REPLICATES, np.random.default_rng(SEED)))
            for name, values in found.items()
        }
        rows.append(Row(world, means, *_rejections(truths)))
        progress(done + 1, len(worlds))
    return rows


def _rejections(truths: Sequence[Truth]) -> tuple[float, float]:
    gone = []
    for truth in truths:
        ids = np.repeat(np.arange(len(truth.rewards)), truth.rewards.shape[-1])
        gone.append(explain(torch.from_numpy(truth.rewards.ravel()), ids, GUARDED).rejected.numpy())
    rejected, faults = np.concatenate(gone), np.concatenate([truth.faults.ravel() for truth in truths])
    return float(rejected[~faults].mean()), float(rejected[faults].mean()) if faults.any() else float("nan")


USUAL = [name for name in SIMULATED if name not in ASIDE]
HELP = {
    "prompts": "prompts in a batch",
    "group": "responses to a prompt",
    "rate": "chance of a fault, in worlds that name none",
    "size": "how far a fault moves a reward",
    "contrast": "how much better a right answer is scored",
    "noise": "standard deviation of the score around that",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `rovrl stress alignment`."""
    for knob in fields(Knobs):
        kind = int if isinstance(knob.default, int) else float
        parser.add_argument(f"--{knob.name}", type=kind, default=knob.default, help=f"{HELP[knob.name]} (%(default)g)")
    parser.add_argument("--world", help=f"some of {', '.join(SIMULATED)} (default: all but {', '.join(ASIDE)})")
    parser.add_argument("--methods", help=f"some of {', '.join(CONTENDERS)} (default: all)")
    parser.add_argument("--seeds", type=int, default=5, help="batches per world (default: 5)")
    parser.add_argument("--png", type=Path, help="write the picture there")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Prints the table and writes the picture; 0."""
    knobs = _knobs(args)
    worlds, methods = _chosen("--world", args.world, SIMULATED, USUAL), _chosen("--methods", args.methods, CONTENDERS)
    if args.seeds < 1:
        raise RovrlError(f"--seeds must be at least 1, not {args.seeds}")
    with progress_bar("alignment") as progress:
        rows = measure(worlds, methods, args.seeds, knobs, progress)
    if args.json:
        gone = [None if math.isnan(row.faults_rejected) else row.faults_rejected for row in rows]
        told = [row._asdict() | {"faults_rejected": share} for row, share in zip(rows, gone, strict=True)]
        print(json.dumps(told, indent=1))
    else:
        print(table(rows, methods, args.seeds, knobs))
    if args.png:
        picture(rows, methods, args.png)
        print(f"wrote {args.png}")
    return 0


def table(rows: Sequence[Row], methods: Sequence[str], seeds: int, knobs: Knobs) -> str:
    """The alignments as Markdown: the best of each world in bold, and what the guarded method rejected."""
    titles = [CONTENDERS[name][0] for name in methods]
    widest = max((e.high - e.low) / 2 for row in rows for e in row.alignment.values())
    lines = [
        f"{knobs.prompts} prompts, groups of {knobs.group}; the mean of {seeds} batches (seeds 1 to {seeds}), "
        f"largest half-width of a 95 % interval {widest:.3f}.\n",
        "| world | " + " | ".join(titles) + " | faults rejected | honest rejected |",
        "|---" * (len(titles) + 3) + "|",
    ]
    for row in rows:
        values = [f"{row.alignment[name].value:.2f}" for name in methods]
        best = max(values, key=float)
        cells = [f"**{value}**" if value == best else value for value in values]
        share = "" if math.isnan(row.faults_rejected) else f"{row.faults_rejected:.1%}"
        lines.append(f"| {SIMULATED[row.world].title} | {' | '.join(cells)} | {share} | {row.honest_rejected:.2%} |")
    return "\n".join(lines)


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


MARKS = "o>sDv^PX*"
GREY = "#8c8c8c"
OURS = ("credit", "adaptive", "guarded")


def picture(rows: Sequence[Row], methods: Sequence[str], path: Path) -> None:
    """One line per world, one dot per method, ours on top."""
    require("matplotlib", extra="report").use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 0.42 * len(rows) + 1.6), layout="constrained")
    places = np.arange(len(rows))[::-1]
    for k, name in enumerate(methods):
        ours = name in OURS
        colour = COLOURS[OURS.index(name)] if ours else GREY
        found = [row.alignment[name] for row in rows]
        spread = [[e.value - e.low for e in found], [e.high - e.value for e in found]]
        axes.errorbar(
            [e.value for e in found], places, xerr=spread, fmt=MARKS[k % len(MARKS)], ms=7 if ours else 5, color=colour, lw=1,
            label=CONTENDERS[name][0], zorder=3 if ours else 2, alpha=1 if ours else 0.8,
        )  # fmt: skip
    axes.set_yticks(places, [SIMULATED[row.world].title for row in rows])
    axes.set_xlabel("alignment of the advantages with the truth")
    axes.grid(axis="x", lw=0.4)
    figure.legend(loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    figure.savefig(path, dpi=120)
