"""What is compared: each measure per group, the prompt of every group, and the mean of a measure by prompt."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import Array
from rovrl.audit.measure.ranks import group_correlation
from rovrl.audit.read.notes import Notes
from rovrl.audit.result import AuditResult

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""What the runs are called, in order."""


class Measure(NamedTuple):
    """A measure's name for people, and which way is better: 1 more, -1 less, 0 neither."""

    title: str
    better: int
    share: bool = True
    """A share from 0 to 1, shown in percent."""


MEASURES: dict[str, Measure] = {
    "mean_reward": Measure("mean reward", 1, share=False),
    "accuracy": Measure("accuracy", 1),
    "contrast_lost": Measure("contrast lost under GRPO", -1),
    "contrast_lost_credit": Measure("contrast lost under credit", 0),
    "dominated": Measure("groups with dominating rewards", -1),
    "sign_changes": Measure("responses that change sign", 0),
    "tied": Measure("tied groups", 0),
    "nonfinite": Measure("rewards missing or not finite", -1),
    "length": Measure("length", 0, share=False),
    "length_reward": Measure("correlation of length and reward", 0, share=False),
    "truncated": Measure("truncated responses", -1),
    "copies": Measure("responses with equal texts", 0),
    "distinct": Measure("distinct word pairs", 0),
    "clipped": Measure("responses clipped (GSPO mean)", 0),
    "branch_moved": Measure("clip branches SoftRoVR moves", 0),
}


def prompts(result: AuditResult) -> list[str] | None:
    """The prompt of every group, or None where none were saved."""
    rollouts = result.rollouts
    if rollouts.by_runs:
        return rollouts.label.to_pylist()
    first = {}
    for group, start in enumerate(rollouts.start[:-1].tolist()):
        first[int(rollouts.file[start]), int(rollouts.row[start])] = group
    found: list[str | None] = [None] * rollouts.groups
    for number, file in enumerate(rollouts.files):
        for chunk in result.reader.chunks(file, frozenset({"reward", "prompt"}), Notes()):
            if chunk.prompt is None:
                return None
            for k, row in enumerate(chunk.row.tolist()):
                group = first.get((number, row))
                if group is not None:
                    found[group] = chunk.prompt[k].as_py()
    return [prompt or "" for prompt in found]


def values_by_group(result: AuditResult) -> dict[str, Array]:
    """Each measure per group; NaN where it is not defined."""
    table = result.groups
    untied = table.untied
    values = {
        "mean_reward": table.mean,
        "contrast_lost": np.where(untied, table.lost, np.nan),
        "contrast_lost_credit": np.where(untied, table.lost_credit, np.nan),
        "dominated": np.where(table.single, np.nan, table.dominating > 0),
        "sign_changes": np.where(untied, table.flips / np.maximum(table.finite, 1), np.nan),
        "tied": np.where(table.single, np.nan, table.tied),
        "nonfinite": (table.size - table.finite) / table.size,
    }
    return values | _of_responses(result) | _of_ratios(result)


def _of_responses(result: AuditResult) -> dict[str, Array]:
    r, rollouts = result.description.responses, result.rollouts
    group = np.repeat(np.arange(rollouts.groups), rollouts.size)
    named = {"accuracy": r.right, "length": r.length, "truncated": r.truncated, "copies": r.copies}
    values = {name: _means(group, rollouts.groups, found) for name, found in named.items() if found is not None}
    if r.length is not None:
        values["length_reward"] = group_correlation(group, rollouts.groups, r.length, rollouts.reward)
    if r.distinct is not None:
        values["distinct"] = r.distinct
    return values


def _of_ratios(result: AuditResult) -> dict[str, Array]:
    ratios, groups = result.ratios, len(result.groups.size)
    if ratios is None:
        return {}
    known = ratios.group >= 0
    hits = {"clipped": ratios.branch(ratios.mean) != 0, "branch_moved": ratios.moved}
    return {name: _means(ratios.group[known], groups, hit[known].astype(np.float64)) for name, hit in hits.items()}


def _means(group: NDArray[np.int64], groups: int, values: Array) -> Array:
    good = np.isfinite(values)
    count = np.bincount(group[good], minlength=groups)
    total = np.bincount(group[good], weights=values[good], minlength=groups)
    return np.divide(total, count, out=np.full(groups, np.nan), where=count > 0)


def by_prompt(values: Array, names: list[str], both: list[str]) -> Array:
    """The mean over each prompt's groups, in the order of `both`; NaN where none is defined."""
    place = {name: k for k, name in enumerate(both)}
    index = np.array([place.get(name, -1) for name in names], dtype=np.int64)
    use = (index >= 0) & np.isfinite(values)
    count = np.bincount(index[use], minlength=len(both))
    total = np.bincount(index[use], weights=values[use], minlength=len(both))
    return np.divide(total, count, out=np.full(len(both), np.nan), where=count > 0)
