"""An audit as one JSON document: what audit.json holds and what the page shows, number for number.

Also which responses and groups a finding is about, so that what it counts can be found again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import rovrl
from rovrl.audit.arrays import ranked
from rovrl.audit.describe.description import Description
from rovrl.audit.judge.evidence import Evidence
from rovrl.audit.measure.settings import Settings, settings_of
from rovrl.audit.show.details import cut, details
from rovrl.config import CLIP_HIGH, CLIP_LOW, GRPO_EPSILON, RatioChannel
from rovrl.output.files import plain
from rovrl.robust.correction import quantile_grid
from rovrl.robust.scale import scale_source

if TYPE_CHECKING:
    from rovrl.audit.result import AuditResult

FORMAT = 2
RATIO_COLUMNS = ("mean", "deviation", "median", "reference", "nu", "lost", "lost_credit", "lost_own", "shift")
Groups = NDArray[np.bool_]
LEFT_OUT = "left out by the run itself (advantage 0)"
KINDS = {
    "apart": "stands apart from all other rewards",
    "bonus": "may be a rare bonus",
    "penalty": "may be a rare penalty",
}
"""What is said of a response by the kind of its reward; levels and tails are ordinary."""


def payload(result: AuditResult, groups: int) -> dict[str, Any]:
    """The document: verdict, summary, steps, settings, notes, certificate, and the `groups` worst groups."""
    chosen = result.worst(groups)
    settings, which = _settings(result, chosen)
    found = details(result, chosen)
    about, named = groups_of_findings(result), _named(result)
    by_step = {code: {"by_step": share_by_step(result, groups)} for code, groups in about.items()}
    rows = []
    for group in chosen.tolist():
        row = _group(result, group)
        row["codes"] = [code for code, groups in about.items() if groups[group]]
        row["named"] = named.get(group, {})
        row["settings"] = which[group]
        row.update(found.get(group, {}))
        rows.append(row)
    return plain(
        {
            "format": FORMAT,
            "rovrl": rovrl.__version__,
            "source": _source(result),
            "status": result.status,
            "state": result.state,
            "verdict": result.verdict,
            "to_decide": [asdict(note) for note in result.questions],
            "findings": [asdict(finding) | by_step.get(finding.code, {}) for finding in result.findings],
            "thresholds": result.thresholds,
            "summary": asdict(result.summary),
            "notes": [asdict(note) for note in result.notes],
            "certificate": result.certificate.to_dict() if result.certificate else None,
            "tolerated": result.tolerated,
            "steps": result.steps | result.description.steps,
            "description": result.description.to_dict(),
            "settings": settings,
            "ratio_settings": _ratio_settings(result.ratio_channel),
            "groups_total": result.summary.groups,
            "groups": rows,
        }
    )


def _source(result: AuditResult) -> dict[str, Any]:
    reader = result.reader
    names = {"kind": reader.name, "title": reader.title, "names_method": reader.method is not None}
    names["logs_credit"] = result.evidence.logged and result.evidence.trained.bounded
    return {"path": result.path, "files": len(result.files), **names}


def _group(result: AuditResult, group: int) -> dict[str, Any]:
    table, rollouts = result.groups, result.rollouts
    row: dict[str, Any] = {
        "id": group,
        "step": int(rollouts.step[group]),
        "label": cut(rollouts.label[group].as_py(), 120, 60) if not rollouts.by_runs else "",
        "rewards": result.rewards(group),
        "size": int(table.size[group]),
        "finite": int(table.finite[group]),
        "tied": bool(table.tied[group]),
        "single": bool(table.single[group]),
        "fallback": bool(table.fallback[group]),
        "flips": int(table.flips[group]),
        "dominating": result.dominating(group),
    }
    row.update({name: float(getattr(table, name)[group]) for name in RATIO_COLUMNS})
    span = rollouts.rows_of(group)
    if rollouts.advantage is not None:
        row["logged"] = rollouts.advantage[span]
    if rollouts.planted is not None:
        row["planted"] = np.flatnonzero(rollouts.planted[span])
    return row | _described(result.description, span)


def _named(result: AuditResult) -> dict[int, dict[str, list[int]]]:
    """Of each group with rewards that findings or notes speak of: why, and the places of those responses in the group."""
    start = result.rollouts.start
    found: dict[int, dict[str, list[int]]] = {}
    for why, rows in rewards_named(result.evidence):
        for row, group in zip(rows.tolist(), (np.searchsorted(start, rows, side="right") - 1).tolist(), strict=True):
            found.setdefault(group, {}).setdefault(why, []).append(row - int(start[group]))
    return found


def _described(description: Description, span: slice) -> dict[str, Any]:
    """What is known of a group's responses beside their rewards; a key that is missing is not known."""
    responses = description.responses
    found: dict[str, Any] = {}
    for name, values in (("lengths", responses.length), ("right", responses.right), ("truncated", responses.truncated)):
        if values is not None:
            found[name] = values[span]
    if responses.copies is not None:
        found["copies"] = int(np.nansum(responses.copies[span]))
    if description.functions:
        found["parts"] = {f.name: responses.parts[f.name][span] for f in description.functions}
    return found


def _settings(result: AuditResult, chosen: np.ndarray) -> tuple[list[dict[str, Any]], dict[int, int]]:
    """The distinct settings in use, with the partitions for every size that occurs, and which group uses which."""
    finite, out = result.groups.finite[chosen], result.groups.dominating[chosen]
    spared = np.bincount(
        np.searchsorted(result.rollouts.start, np.flatnonzero(result.evidence.left_out), side="right") - 1
    )
    less = np.zeros(result.summary.groups, dtype=np.int64)
    less[: len(spared)] = spared
    sizes = np.unique(
        np.concatenate([finite, finite - 1, finite - out, finite - less[chosen], finite - less[chosen] + 1])
    )
    sizes = sizes.tolist()  # the page also leaves rewards out
    distinct: dict[Settings, int] = {}
    which = {}
    for group in chosen.tolist():
        settings = settings_of(result.settings, int(result.rollouts.step[group]))
        which[group] = distinct.setdefault(settings, len(distinct))
    return [_one_setting(settings, sizes) for settings in distinct], which


def _one_setting(settings: Settings, sizes: list[int]) -> dict[str, Any]:
    channel = settings.channel
    blocks = {n: settings.partition(n)[0] for n in sizes if n >= 2}
    pilot = {n: channel.scale_source for n, b in blocks.items() if scale_source(b, channel) == "pilot"}
    return channel.to_dict() | {
        "blocks": {n: b.members for n, b in blocks.items()},
        "nu": pilot,
        "grid": _grid(channel.num_levels),
        "grpo_epsilon": GRPO_EPSILON,
    }


def _ratio_settings(channel: RatioChannel) -> dict[str, Any]:
    return channel.to_dict() | {"grid": _grid(channel.num_levels), "clip_low": CLIP_LOW, "clip_high": CLIP_HIGH}


def _grid(num_levels: int) -> dict[str, Any]:
    grid = quantile_grid(num_levels)
    return {"offsets": grid.offsets.tolist(), "density": grid.density}


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
