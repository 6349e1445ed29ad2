"""An audit in a few numbers for the tracker of a run that goes on: Weights & Biases, TensorBoard, trackio, ..."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rovrl.audit.judge.findings import CODES

if TYPE_CHECKING:  # an audit loads what every process of an engine need not
    from rovrl.audit.result import AuditResult


def metrics(result: AuditResult) -> dict[str, float]:
    """The audit in a few numbers, by name: totals of the run so far, and how many findings there are."""
    s, t = result.summary, result.description.totals
    numbers = {
        "findings": float(len(result.findings)),
        "contrast_lost": s.contrast_lost,
        "dominated": s.dominated_groups / s.groups,
        "tied": s.tied_groups / s.groups,
        "nonfinite": s.nonfinite_rewards / s.responses,
        "sign_changes": s.sign_change_share,
        "length_reward": t.length_reward,
        "copies": t.copies,
        "truncated": t.truncated,
    }
    found = {f"finding/{finding.code}": finding.value for finding in result.findings}
    return {f"audit/{name}": float(value) for name, value in (numbers | found).items() if value is not None}


def stop_codes(stop_on: str | Iterable[str]) -> frozenset[str]:
    """The findings that end a training; a ValueError for a word that names none."""
    stops = (stop_on,) if isinstance(stop_on, str) else tuple(stop_on)
    unknown = sorted(set(stops) - set(CODES))
    if unknown:
        raise ValueError(f"stop_on names no finding: {', '.join(unknown)}; the codes are {', '.join(CODES)}")
    return frozenset(stops)
