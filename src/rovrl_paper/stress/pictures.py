"""The pictures of docs/faults.md: alignments as dots, and counts per group beside what chance would make of them.

python -m rovrl_paper.stress.pictures docs/fault-counts.png
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import comb
from pathlib import Path
from typing import Any

import numpy as np

from rovrl.errors import require
from rovrl.output.chart import COLOURS
from rovrl_paper.stress.alignment import CONTENDERS, Row
from rovrl_paper.stress.worlds import SIMULATED, draw

MARKS = "o>sDv^PX*"
GREY = "#8c8c8c"


def alignment_picture(rows: Sequence[Row], methods: Sequence[str], path: Path) -> None:
    """One line per world, one dot per method, ours on top."""
    figure, axes = _plot().subplots(figsize=(9, 0.42 * len(rows) + 1.6), layout="constrained")
    places = np.arange(len(rows))[::-1]
    for k, name in enumerate(methods):
        ours = name in ("credit", "adaptive", "guarded")
        colour = COLOURS[("credit", "adaptive", "guarded").index(name)] if ours else GREY
        values = [row.alignment[name].value for row in rows]
        spread = [[e.value - e.low for e in _of(rows, name)], [e.high - e.value for e in _of(rows, name)]]
        axes.errorbar(
            values, places, xerr=spread, fmt=MARKS[k % len(MARKS)], ms=7 if ours else 5, color=colour, lw=1,
            label=CONTENDERS[name][0], zorder=3 if ours else 2, alpha=1 if ours else 0.8,
        )  # fmt: skip
    axes.set_yticks(places, [SIMULATED[row.world][0] for row in rows])
    axes.set_xlabel("alignment of the advantages with the truth")
    axes.grid(axis="x", lw=0.4)
    figure.legend(loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    figure.savefig(path, dpi=120)


def counts_picture(path: Path, seed: int = 1) -> None:
    """How many responses of a group lie far above its median, for faults and for right answers, beside the binomial."""
    figure, axes = _plot().subplots(1, 2, figsize=(9, 3.2), layout="constrained", sharey=True)
    titles = {"upwards": "10 % faults: chance", "rarebonus": "about 10 % right answers: merit"}
    for each, (world, title) in zip(axes, titles.items(), strict=True):
        rewards = draw(world, seed).rewards
        size = rewards.shape[-1]
        counts = (rewards - np.median(rewards, -1, keepdims=True) > 0.5).sum(-1)
        rate, n = counts.mean() / size, np.arange(11)
        chance = [comb(size, int(k)) * rate**k * (1 - rate) ** (size - k) for k in n]
        each.bar(n, np.bincount(counts, minlength=11)[:11] / len(counts), color=COLOURS[1], label="256 groups")
        each.plot(n, chance, "o-", color=COLOURS[0], label="binomial", ms=4, lw=1)
        each.set_title(title, fontsize=11)
        each.set_xlabel("far responses in a group of 16")
    axes[0].set_ylabel("share of groups")
    axes[1].legend(frameon=False)
    figure.savefig(path, dpi=120)


def _of(rows: Sequence[Row], name: str) -> list[Any]:
    return [row.alignment[name] for row in rows]


def _plot() -> Any:
    require("matplotlib", extra="report").use("Agg")
    from matplotlib import pyplot

    return pyplot


if __name__ == "__main__":
    counts_picture(Path(sys.argv[1]))
