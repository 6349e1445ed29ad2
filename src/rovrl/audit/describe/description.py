"""A run described: what `AuditResult.description` holds and the page shows beside the verdict.

Totals, the run step by step, and every reward function on its own: its trend, its ties, its share of the variance, and whether
it agrees with the others.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import Array
from rovrl.audit.describe.responses import Responses, read_responses
from rovrl.audit.measure.ranks import group_correlation
from rovrl.audit.measure.statistics import GroupTable, group_table
from rovrl.audit.read.rollouts import Rollouts
from rovrl.audit.read.rows import Reader
from rovrl.config import RewardChannel
from rovrl.output.progress import silent

EXACT = 1e-6
"""The reward is a weighted sum of the columns if no residual is larger, relative to the largest reward."""
LEVELS = {"low": 0.1, "middle": 0.5, "high": 0.9}
"""The quantiles of every step that are shown."""


@dataclass(frozen=True)
class Totals:
    """The run in one line each; None where the dump does not say."""

    unit: str
    """What lengths count: tokens or characters."""
    length: float | None
    """The median."""
    length_high: float | None
    """The 90 % quantile."""
    length_reward: float | None
    """Mean rank correlation of length and reward within groups."""
    truncated: float | None
    truncated_by: str
    copies: float | None
    """Share of responses whose text another one of the group has too."""
    distinct: float | None
    """Mean over groups of distinct over all pairs of neighbouring words."""
    accuracy: float | None
    verdict: str
    """The column that says what is right."""


@dataclass(frozen=True)
class RewardFunction:
    """One reward function of a run. None: not defined for this run."""

    name: str
    weight: float | None
    """Its weight in the reward that is audited; None if that is not a weighted sum of the columns."""
    mean: float | None
    missing: float
    """Share of responses without a finite value."""
    tied: float
    """Share of groups in which it gives every response the same: there it teaches nothing."""
    variance: float | None
    """Mean over untied groups of its share of the reward's variance, cov(weight · value, reward)/var(reward); they sum to 1."""
    agreement: float | None
    """Mean rank correlation, within groups, with the sum of the other functions (or with the reward)."""
    opposed: float | None
    """Share of the groups where that correlation is defined in which it is negative."""
    dominated: int
    """Groups that a few of its values dominate."""
    lost: float
    """Contrast of its own that GRPO would lose to them, mean over its untied groups."""
    by_step: Array
    """Its mean at every step."""


@dataclass(frozen=True)
class Description:
    """Lengths, diversity, accuracy, reward functions: over the run, by step, and by response."""

    totals: Totals
    functions: list[RewardFunction]
    steps: dict[str, NDArray[Any]]
    responses: Responses

    def to_dict(self) -> dict[str, Any]:
        """Totals and reward functions as plain values; the steps and responses are beside the audit's own."""
        return {"totals": asdict(self.totals), "functions": [asdict(f) for f in self.functions]}


def describe(reader: Reader, rollouts: Rollouts, table: GroupTable, channel: RewardChannel) -> Description:
    """The description of a run, from one more pass over its files."""
    responses = read_responses(reader, rollouts)
    functions = reward_functions(rollouts, responses.parts, table, channel) if responses.parts else []
    return Description(_totals(rollouts, responses), functions, described_steps(rollouts, responses), responses)


def _totals(rollouts: Rollouts, r: Responses) -> Totals:
    follows = None
    if r.length is not None:
        group = np.repeat(np.arange(rollouts.groups), rollouts.size)
        follows = group_correlation(group, rollouts.groups, r.length, rollouts.reward)
    return Totals(
        unit=r.unit,
        length=_quantile(r.length, 0.5),
        length_high=_quantile(r.length, 0.9),
        length_reward=_mean(follows),
        truncated=_mean(r.truncated),
        truncated_by=r.truncated_by,
        copies=_mean(r.copies),
        distinct=_mean(r.distinct),
        accuracy=_mean(r.right),
        verdict=r.verdict,
    )


def reward_functions(
    rollouts: Rollouts, parts: dict[str, Array], table: GroupTable, channel: RewardChannel
) -> list[RewardFunction]:
    """The reward functions, in the order of the dump; columns with weight 0 are not part of the reward and are left out."""
    weights = weights_of(rollouts.reward, parts)
    names = [name for name in parts if weights is None or weights[name] != 0.0]
    group = np.repeat(np.arange(rollouts.groups), rollouts.size)
    steps, rank = np.unique(rollouts.step, return_inverse=True)
    by_response = rank[group]
    found = []
    for name in names:
        values = np.where(np.isfinite(parts[name]), parts[name], np.nan)
        own, _ = group_table(replace(rollouts, reward=values), channel, silent)
        others = _others(rollouts.reward, values, weights[name] if weights else None)
        agreement = group_correlation(group, rollouts.groups, values, others)
        defined = np.isfinite(agreement)
        untied = own.untied
        found.append(
            RewardFunction(
                name=name,
                weight=None if weights is None else weights[name],
                mean=_mean(values),
                missing=float(np.isnan(values).mean()),
                tied=float(own.tied.mean()),
                variance=None
                if weights is None
                else variance_share(group, rollouts.reward, weights[name] * values, table),
                agreement=_mean(agreement),
                opposed=float((agreement[defined] < 0).mean()) if defined.any() else None,
                dominated=int((own.dominating > 0).sum()),
                lost=float(own.lost[untied].mean()) if untied.any() else 0.0,
                by_step=step_means(by_response, len(steps), values),
            )
        )
    return found


def weights_of(reward: Array, parts: dict[str, Array]) -> dict[str, float] | None:
    """The weights with which the columns add up to the reward; None if they do not. A value that is missing adds nothing."""
    columns = np.stack([np.nan_to_num(values, posinf=0.0, neginf=0.0) for values in parts.values()], axis=-1)
    known = np.isfinite(reward) & np.isfinite(np.stack(list(parts.values()), axis=-1)).any(-1)
    if known.sum() < len(parts):
        return None
    x, y = columns[known], reward[known]
    size = np.maximum(np.abs(x).max(0), np.finfo(np.float64).tiny)
    top = float(np.abs(y).max()) or 1.0
    if not np.isfinite(size / top).all() or top > 1e150 or size.max() > 1e150:
        return None
    scaled, *_ = np.linalg.lstsq(x / size, y / top, rcond=None)
    if np.abs(x / size @ scaled - y / top).max() > EXACT:
        return None
    weights = scaled * top / size
    weights[np.abs(scaled) < EXACT] = 0.0
    return {name: float(f"{weight:.6g}") for name, weight in zip(parts, weights, strict=True)}


def variance_share(group: NDArray[np.int64], reward: Array, part: Array, table: GroupTable) -> float | None:
    """Mean over untied groups of cov(part, reward)/var(reward) within the group."""
    groups = len(table.size)
    known = np.isfinite(reward)
    g, y, x = group[known], reward[known], np.nan_to_num(part[known])
    count = np.maximum(np.bincount(g, minlength=groups), 1)
    with np.errstate(over="ignore", invalid="ignore"):
        y = y - (np.bincount(g, weights=y, minlength=groups) / count)[g]
        both = np.bincount(g, weights=x * y, minlength=groups)
        share = both / np.bincount(g, weights=y * y, minlength=groups)
    share = share[table.untied]
    return _mean(share)


def step_means(rank: NDArray[np.int64], steps: int, values: Array) -> Array:
    """The mean of the finite values of every step; NaN where there are none."""
    good = np.isfinite(values)
    count = np.bincount(rank[good], minlength=steps)
    total = np.bincount(rank[good], weights=values[good], minlength=steps)
    return np.divide(total, count, out=np.full(steps, np.nan), where=count > 0)


def _others(reward: Array, values: Array, weight: float | None) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        rest = reward if weight is None else reward - weight * np.nan_to_num(values)
    return np.round(rest, 12)  # what is left of a sum is not exactly 0: a tie must stay a tie


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


def _mean(values: Array | None) -> float | None:
    """The mean of what is finite, divided first: a sum of huge numbers would overflow."""
    known = np.empty(0) if values is None else values[np.isfinite(values)]
    return float((known / len(known)).sum()) if len(known) else None


def _quantile(values: Array | None, level: float) -> float | None:
    known = np.empty(0) if values is None else values[np.isfinite(values)]
    return float(np.quantile(known, level)) if len(known) else None
