"""Which responses and which groups a finding is about, so that what it counts can be found again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import ranked
from rovrl.audit.judge.evidence import Evidence

if TYPE_CHECKING:
    from rovrl.audit.result import AuditResult

Groups = NDArray[np.bool_]
LEFT_OUT = "left out by the run itself (advantage 0)"
KINDS = {
    "apart": "stands apart from all other rewards",
    "bonus": "may be a rare bonus",
    "penalty": "may be a rare penalty",
}
"""What is said of a response by the kind of its reward; levels and tails are ordinary."""


def rewards_named(evidence: Evidence) -> list[tuple[str, NDArray[np.int64]]]:
    """(why, rows) of the rewards that findings and notes speak of beside those that dominate, are missing or change sign."""
    expect, outliers = evidence.expect, evidence.outliers
    outside = expect.outside(evidence.rollouts.reward) if expect.has_range else np.zeros(0, dtype=bool)
    spared = np.union1d(evidence.rejected.row, outliers.row)
    named = [
        ("outside the declared range", np.flatnonzero(outside)),
        ("shown to be a fault", evidence.rejected.row),
        (LEFT_OUT, spared[evidence.left_out[spared]]),
    ]
    return named + [(why, outliers.row[outliers.kind == kind]) for kind, why in KINDS.items()]


def groups_of_findings(result: AuditResult) -> dict[str, Groups]:
    """The groups that each finding is about, by its code, where no measure over the steps shows them."""
    codes = [finding.code for finding in result.findings if finding.code in OF_CODE]
    return {code: OF_CODE[code](result.evidence) for code in codes}


def share_by_step(result: AuditResult, groups: Groups) -> NDArray[np.float64]:
    """The share of every step's groups that are among `groups`, in the order of `result.steps`."""
    rank = ranked(result.rollouts.step)[1]
    return np.bincount(rank, weights=groups) / np.bincount(rank)


def _holding(rows: NDArray[np.int64], evidence: Evidence) -> Groups:
    """The groups that hold one of these rows."""
    found = np.zeros(evidence.rollouts.groups, dtype=bool)
    found[np.searchsorted(evidence.rollouts.start, rows, side="right") - 1] = True
    return found


def _with_tokens(evidence: Evidence, hit: str) -> Groups:
    """The groups with a response whose weight is hit; none without token log-ratios."""
    found, ratios = np.zeros(evidence.rollouts.groups, dtype=bool), evidence.ratios
    if ratios is not None:
        group = ratios.group[getattr(ratios, hit)]
        found[group[group >= 0]] = True
    return found


OF_CODE: dict[str, Callable[[Any], Groups]] = {
    "out_of_range": lambda e: _holding(np.flatnonzero(e.expect.outside(e.rollouts.reward)), e),
    "faulty_rewards": lambda e: _holding(e.rejected.row, e),
    "dominating_rewards": lambda e: e.suspects("dominating_rewards"),
    "contrast_lost": lambda e: e.suspects("contrast_lost"),
    "single_groups": lambda e: e.table.single,
    "repeated_groups": lambda e: e.repeated,
    "branch_moved": lambda e: _with_tokens(e, "moved"),
    "ratio_bursts": lambda e: _with_tokens(e, "bursts"),
}
"""The groups of a finding, by its code."""
