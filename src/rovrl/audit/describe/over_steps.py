"""The run step by step, as people look at it: quantiles of reward and length, truncation, copies, accuracy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import Array
from rovrl.audit.describe.functions import step_means
from rovrl.audit.describe.ranks import group_correlation
from rovrl.audit.describe.responses import Responses
from rovrl.audit.read.rollouts import Rollouts

LEVELS = {"low": 0.1, "middle": 0.5, "high": 0.9}
"""The quantiles of every step that are shown."""


def described_steps(rollouts: Rollouts, responses: Responses) -> dict[str, NDArray[Any]]:
    """One entry per step and name, for what the dump holds. The order of steps is that of `step_table`."""
    steps, rank = np.unique(rollouts.step, return_inverse=True)
    group = np.repeat(np.arange(rollouts.groups), rollouts.size)
    at = rank[group]
    out: dict[str, NDArray[Any]] = {f"reward_{k}": v for k, v in quantiles(at, len(steps), rollouts.reward).items()}
    if responses.length is not None:
        out |= {f"length_{k}": v for k, v in quantiles(at, len(steps), responses.length).items()}
        follows = group_correlation(group, rollouts.groups, responses.length, rollouts.reward)
        out["length_reward"] = step_means(rank, len(steps), follows)
    for name, values in (
        ("truncated", responses.truncated),
        ("accuracy", responses.right),
        ("copies", responses.copies),
    ):
        if values is not None:
            out[name] = step_means(at, len(steps), values)
    if responses.distinct is not None:
        out["distinct"] = step_means(rank, len(steps), responses.distinct)
    return out


def quantiles(rank: NDArray[np.int64], steps: int, values: Array) -> dict[str, Array]:
    """The quantiles LEVELS of the finite values of every step, as numpy.quantile; NaN where there are none."""
    good = np.isfinite(values)
    rank, values = rank[good], values[good]
    ordered = values[np.lexsort((values, rank))]
    count = np.bincount(rank, minlength=steps)
    start = np.cumsum(count) - count
    some = count > 0
    found = {}
    for name, level in LEVELS.items():
        place = level * (count[some] - 1)
        low = np.floor(place).astype(np.int64)
        high = np.minimum(low + 1, count[some] - 1)
        a, b = ordered[start[some] + low], ordered[start[some] + high]
        column = np.full(steps, np.nan)
        weight = place - low
        column[some] = a * (1 - weight) + b * weight
        found[name] = column
    return found
