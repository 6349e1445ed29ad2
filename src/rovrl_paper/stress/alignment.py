"""How much of an update points where it should: advantages against the truth, in worlds where that is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rovrl import baselines
from rovrl.advantage import ADVANTAGES, explain
from rovrl.config import RewardChannel
from rovrl.output.intervals import Estimate, bootstrap, draws
from rovrl.output.progress import Progress
from rovrl_paper.stress.worlds import Knobs, Truth, draw

ADAPTIVE = RewardChannel(credit_bound="adaptive", credit_floor="adaptive")
GUARDED = RewardChannel(credit_bound="adaptive", credit_floor="adaptive", faults="reject")
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
        rows.append(Row(world, {name: _mean(values) for name, values in found.items()}, *_rejections(truths)))
        progress(done + 1, len(worlds))
    return rows


def _mean(values: Sequence[float]) -> Estimate:
    return bootstrap(np.array(values), draws(len(values), REPLICATES, np.random.default_rng(SEED)))


def _rejections(truths: Sequence[Truth]) -> tuple[float, float]:
    gone = []
    for truth in truths:
        ids = np.repeat(np.arange(len(truth.rewards)), truth.rewards.shape[-1])
        gone.append(explain(torch.from_numpy(truth.rewards.ravel()), ids, GUARDED).rejected.numpy())
    rejected, faults = np.concatenate(gone), np.concatenate([truth.faults.ravel() for truth in truths])
    return float(rejected[~faults].mean()), float(rejected[faults].mean()) if faults.any() else float("nan")
