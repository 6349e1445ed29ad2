"""A run in numbers: totals over all groups, and the same step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import ranked
from rovrl.audit.judge.evidence import Evidence
from rovrl.audit.measure.ratios import RatioTable
from rovrl.audit.measure.statistics import GroupTable
from rovrl.audit.read.rollouts import Rollouts


@dataclass(frozen=True)
class RatioSummary:
    """The ratio side in numbers; shares are of response-updates."""

    responses: int
    tokens: int
    clipped_upper: float
    clipped_lower: float
    soft_clipped_upper: float
    soft_clipped_lower: float
    moved: float
    bursts: float
    disagreement: float
    median_abs_log_weight: float


@dataclass(frozen=True)
class Summary:
    """The run in numbers."""

    groups: int
    responses: int
    steps: int
    first_step: int
    last_step: int
    group_sizes: dict[int, int]
    """size -> number of groups"""
    tied_groups: int
    single_groups: int
    nonfinite_groups: int
    """Groups with at least one reward that is not a finite number."""
    nonfinite_rewards: int
    dominated_groups: int
    dominant_rewards: int
    """The rewards that dominate those groups."""
    suspect_groups: int
    """Groups in which a reward that the run used stands apart or is shown to be a fault: those of `dominating_rewards`."""
    contrast_lost: float
    """Mean over untied groups: what GRPO's normalisation loses of the contrast among the responses that do not dominate."""
    contrast_lost_credit: float
    contrast_lost_own: float | None
    """What the advantages that the run logged lost of it; None where none are logged."""
    halved_groups: int
    """Untied groups that lost half of their contrast or more."""
    sign_changes: int
    sign_change_share: float
    reference_shift: float
    """Mean over untied groups of |robust reference - mean|."""
    fallback_groups: int
    mean_reward: float
    trained_with: str | None
    """What the records name, or which estimator the logged advantages agree with; None where none are logged."""
    planted: int | None
    """Rewards that the run itself contaminated, where the records say so."""
    planted_left_out: int | None
    """Those of them that its advantages left out."""
    ratios: RatioSummary | None


def summarise(rollouts: Rollouts, table: GroupTable, ratios: RatioTable | None, evidence: Evidence) -> Summary:
    """The run in numbers."""
    untied = table.untied
    planted = rollouts.planted
    counts = np.bincount(table.size)
    sizes = np.flatnonzero(counts)
    return Summary(
        groups=rollouts.groups,
        responses=len(rollouts.reward),
        steps=len(ranked(rollouts.step)[0]),
        first_step=int(rollouts.step.min()),
        last_step=int(rollouts.step.max()),
        group_sizes={int(size): int(count) for size, count in zip(sizes, counts[sizes], strict=True)},
        tied_groups=int(table.tied.sum()),
        single_groups=int(table.single.sum()),
        nonfinite_groups=int((table.finite < table.size).sum()),
        nonfinite_rewards=int((table.size - table.finite).sum()),
        dominated_groups=int((table.dominating > 0).sum()),
        dominant_rewards=int(table.dominating.sum()),
        suspect_groups=int(evidence.suspects("dominating_rewards").sum()),
        contrast_lost=evidence.lost_to(untied, "grpo"),
        contrast_lost_credit=evidence.lost_to(untied, "credit"),
        contrast_lost_own=evidence.lost_to(untied) if evidence.logged else None,
        halved_groups=int((table.lost[untied] >= 0.5).sum()),
        sign_changes=int(table.flips.sum()),
        sign_change_share=table.sign_change_share,
        reference_shift=_mean(np.abs(table.shift[untied])),
        fallback_groups=int(table.fallback.sum()),
        mean_reward=_mean(
            rollouts.reward if (table.finite == table.size).all() else rollouts.reward[~np.isnan(rollouts.reward)]
        ),
        trained_with=evidence.trained.method,
        planted=int(planted.sum()) if planted is not None else None,
        planted_left_out=int(evidence.left_out[planted].sum()) if planted is not None else None,
        ratios=summarise_ratios(ratios) if ratios is not None else None,
    )


def _mean(values: NDArray[np.float64]) -> float:
    """The mean of what is no NaN, 0 of nothing; divided first where a sum of huge values would overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(values.sum())
    if np.isfinite(total):
        return total / len(values) if len(values) else 0.0
    known = values[~np.isnan(values)]
    return float((known / len(known)).sum()) if len(known) else 0.0


def summarise_ratios(ratios: RatioTable) -> RatioSummary:
    """The ratio side in numbers."""
    mean, soft = ratios.branch(ratios.mean), ratios.branch(ratios.soft)
    return RatioSummary(
        responses=len(mean),
        tokens=int(ratios.length.sum()),
        clipped_upper=float(np.mean(mean > 0)),
        clipped_lower=float(np.mean(mean < 0)),
        soft_clipped_upper=float(np.mean(soft > 0)),
        soft_clipped_lower=float(np.mean(soft < 0)),
        moved=float(np.mean(ratios.moved)),
        bursts=float(np.mean(ratios.bursts)),
        disagreement=ratios.disagreement,
        median_abs_log_weight=float(np.median(np.abs(ratios.mean))),
    )


def _finite_where(chosen: NDArray[np.bool_], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The values where they are chosen and finite, else 0."""
    return np.where(chosen & np.isfinite(values), values, 0.0)


def step_table(rollouts: Rollouts, table: GroupTable, ratios: RatioTable | None) -> dict[str, NDArray[Any]]:
    """One entry per step and name: what the overview over steps shows."""
    steps, rank = ranked(rollouts.step)
    untied = table.untied
    known = np.isfinite(table.mean)
    lost = table.lost_own if np.isfinite(table.lost_own).any() else table.lost
    in_order = slice(None) if (rank[1:] >= rank[:-1]).all() else np.argsort(rank, kind="stable")
    first = np.searchsorted(rank[in_order], np.arange(len(steps)))

    def total(values: NDArray[Any]) -> NDArray[np.float64]:
        with np.errstate(over="ignore", invalid="ignore"):  # rewards as large as numbers get have no total
            return np.add.reduceat(values[in_order], first, dtype=np.float64)

    def ratio(part: NDArray[Any], whole: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.divide(total(part), whole, out=np.full(len(steps), np.nan), where=whole > 0)

    groups, responses, with_contrast = np.bincount(rank, minlength=len(steps)), total(table.size), total(untied)
    columns = {
        "step": steps,
        "groups": groups,
        "responses": responses.astype(np.int64),
        "mean_reward": ratio(np.where(known, table.mean, 0.0), total(known)),
        "tied": ratio(table.tied, groups.astype(np.float64)),
        "nonfinite": ratio(table.size - table.finite, responses),
        "dominated": ratio(table.dominating > 0, total(~table.single)),
        "contrast_lost": ratio(_finite_where(untied, lost), with_contrast),
        "sign_changes": ratio(table.flips, total(np.where(untied, table.finite, 0))),
        "spread": ratio(_finite_where(untied, table.spread), with_contrast),
    }
    if ratios is not None:
        known = np.isin(ratios.step, steps)
        place = np.searchsorted(steps, ratios.step[known])
        count = np.bincount(place, minlength=len(steps))
        for name, values in (("clipped", ratios.branch(ratios.mean) != 0), ("branch_moved", ratios.moved)):
            hits = np.bincount(place, weights=values[known].astype(np.float64), minlength=len(steps))
            columns[name] = np.divide(hits, count, out=np.full(len(steps), np.nan), where=count > 0)
    return columns
