"""A run described: what `AuditResult.description` holds and the page shows beside the verdict."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.describe.functions import RewardFunction, reward_functions
from rovrl.audit.describe.over_steps import described_steps
from rovrl.audit.describe.ranks import group_correlation
from rovrl.audit.describe.responses import Responses, read_responses
from rovrl.audit.measure.statistics import GroupTable
from rovrl.audit.read.rollouts import Rollouts
from rovrl.audit.read.rows import Reader
from rovrl.config import RewardChannel


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


def _known(values: NDArray[np.float64] | None) -> NDArray[np.float64]:
    return np.empty(0) if values is None else values[np.isfinite(values)]


def _mean(values: NDArray[np.float64] | None) -> float | None:
    known = _known(values)
    return float(known.mean()) if len(known) else None


def _quantile(values: NDArray[np.float64] | None, level: float) -> float | None:
    known = _known(values)
    return float(np.quantile(known, level)) if len(known) else None
