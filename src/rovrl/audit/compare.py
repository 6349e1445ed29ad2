"""Two runs side by side: paired where the prompts match, with bootstrap intervals."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.read.rows import Notes
from rovrl.audit.result import AuditResult
from rovrl.audit.run import audit
from rovrl.output.files import plain
from rovrl.output.intervals import bootstrap, draws, limits, resampled

REPLICATES = 2000
SEED = 20250904
Array = NDArray[np.float64]

MEASURES: dict[str, str] = {
    "mean_reward": "mean reward",
    "contrast_lost": "contrast lost under GRPO",
    "contrast_lost_credit": "contrast lost under credit",
    "dominated": "groups with dominating rewards",
    "sign_changes": "responses that change sign",
    "tied": "tied groups",
    "nonfinite": "rewards missing or not finite",
    "clipped": "responses clipped (GSPO mean)",
    "branch_moved": "clip branches SoftRoVR moves",
}


@dataclass(frozen=True)
class Difference:
    """One measure: its means in A and B, B - A with its 95 % interval, and over how many prompts or groups."""

    measure: str
    a: float
    b: float
    difference: float
    low: float
    high: float
    paired: bool
    units: int


@dataclass(frozen=True)
class Comparison:
    """Two audits and what differs between them."""

    a: AuditResult
    b: AuditResult
    matched: int
    """Prompts that both runs have."""
    differences: list[Difference]

    def to_dict(self) -> dict[str, Any]:
        """As plain values, without the groups."""
        sides = {
            name: {"path": side.path, "summary": asdict(side.summary), "verdict": side.verdict}
            for name, side in (("a", self.a), ("b", self.b))
        }
        return plain(sides | {"matched": self.matched, "differences": [asdict(d) for d in self.differences]})

    def show(self) -> str:
        """The comparison as text."""
        lines = [
            f"A  {self.a.path}: {self.a.summary.groups:,} groups, {self.a.summary.steps:,} steps. {self.a.verdict}",
            f"B  {self.b.path}: {self.b.summary.groups:,} groups, {self.b.summary.steps:,} steps. {self.b.verdict}",
            f"{self.matched:,} prompts are in both runs",
            "",
            f"{'':<32}{'A':>10}{'B':>10}{'B - A':>10}   95 % interval",
        ]
        for d in self.differences:
            clear = "" if d.low <= 0 <= d.high else "  *"
            how = f"{d.units:,} prompts, paired" if d.paired else f"{d.units:,} groups, not paired"
            lines.append(
                f"{MEASURES[d.measure]:<32}{d.a:>10.4g}{d.b:>10.4g}{d.difference:>+10.4g}   "
                f"[{d.low:+.4g}, {d.high:+.4g}]{clear}  ({how})"
            )
        lines += [
            "",
            f"* the interval does not hold 0; bootstrap over prompts or groups, {REPLICATES:,} replicates, seed {SEED}",
        ]
        return "\n".join(lines)


def compare(a: str | Path, b: str | Path, **options: Any) -> Comparison:
    """The audits of two runs and their differences B - A; options as for `audit`.

    A measure is paired if at least two prompts are in both runs: then its unit is the prompt, averaged over its groups in each
    run. Otherwise groups are resampled in each run on its own.
    """
    one, two = audit(a, **options), audit(b, **options)
    prompts_a, prompts_b = prompts(one), prompts(two)
    both = sorted(set(prompts_a or []) & set(prompts_b or []))
    values_a, values_b = _values(one), _values(two)
    differences = []
    for measure in MEASURES:
        if measure not in values_a or measure not in values_b:
            continue
        x, y = values_a[measure], values_b[measure]
        paired = None
        if len(both) >= 2:
            paired = _paired(measure, _by_prompt(x, prompts_a or [], both), _by_prompt(y, prompts_b or [], both))
        differences.append(paired or _unpaired(measure, x, y))
    return Comparison(one, two, len(both), [d for d in differences if d is not None])


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


def _values(result: AuditResult) -> dict[str, Array]:
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
    ratios = result.ratios
    if ratios is not None:
        known = ratios.group >= 0
        count = np.bincount(ratios.group[known], minlength=len(table.size))
        for name, hits in (("clipped", ratios.branch(ratios.mean) != 0), ("branch_moved", ratios.moved)):
            total = np.bincount(ratios.group[known], weights=hits[known].astype(np.float64), minlength=len(table.size))
            values[name] = np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)
    return values


def _by_prompt(values: Array, names: list[str], both: list[str]) -> Array:
    """The mean over each prompt's groups, in the order of `both`; NaN where none is defined."""
    place = {name: k for k, name in enumerate(both)}
    index = np.array([place.get(name, -1) for name in names], dtype=np.int64)
    use = (index >= 0) & np.isfinite(values)
    count = np.bincount(index[use], minlength=len(both))
    total = np.bincount(index[use], weights=values[use], minlength=len(both))
    return np.divide(total, count, out=np.full(len(both), np.nan), where=count > 0)


def _paired(measure: str, x: Array, y: Array) -> Difference | None:
    good = np.isfinite(x) & np.isfinite(y)
    if good.sum() < 2:
        return None
    x, y = x[good], y[good]
    found = bootstrap(y - x, draws(len(x), REPLICATES, np.random.default_rng(SEED)))
    return Difference(measure, float(x.mean()), float(y.mean()), *found, True, len(x))


def _unpaired(measure: str, x: Array, y: Array) -> Difference | None:
    x, y = x[np.isfinite(x)], y[np.isfinite(y)]
    if len(x) < 2 or len(y) < 2:
        return None
    generator = np.random.default_rng(SEED)
    after, before = (resampled(values, draws(len(values), REPLICATES, generator)) for values in (y, x))
    a, b = float(x.mean()), float(y.mean())
    return Difference(measure, a, b, float(y.mean() - x.mean()), *limits(after - before), False, len(x) + len(y))
