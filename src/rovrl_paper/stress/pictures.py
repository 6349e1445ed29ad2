"""The picture of docs/faults.md: counts per group beside what chance would make of them.

python -m rovrl_paper.stress.pictures docs/fault-counts.png
"""

from __future__ import annotations

import sys
from math import comb
from pathlib import Path
from typing import Any

import numpy as np

from rovrl.errors import require
from rovrl.output.chart import COLOURS
from rovrl_paper.worlds import draw


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


def _plot() -> Any:
    require("matplotlib", extra="report").use("Agg")
    from matplotlib import pyplot

    return pyplot


if __name__ == "__main__":
    counts_picture(Path(sys.argv[1]))
