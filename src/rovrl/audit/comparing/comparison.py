"""`compare(a, b, ...)`: the audits of several runs, measure by measure, and what differs from the first, with intervals."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rovrl.audit.arrays import Array
from rovrl.audit.comparing.measures import LETTERS, MEASURES, by_prompt, prompts, values_by_group
from rovrl.audit.comparing.page import write
from rovrl.audit.result import AuditResult
from rovrl.audit.run import audit
from rovrl.errors import RovrlError
from rovrl.output.files import plain
from rovrl.output.intervals import TAIL, draws, limits, resampled

REPLICATES = 4000
SEED = 20250904


@dataclass(frozen=True)
class Difference:
    """One measure of a run B against the first run A: both means, B - A with its 95 % interval, over how many units."""

    measure: str
    a: float
    b: float
    difference: float
    low: float
    high: float
    paired: bool
    units: int
    """Prompts of both runs if paired, else groups of both."""
    run: int = 1
    """The number of the run B; A is 0."""
    clear: bool = False
    """Whether 0 lies outside the interval even when all measures of the comparison are judged at once (Bonferroni)."""

    @property
    def worse(self) -> bool:
        """Clearly worse than in A, where it is known which way is better."""
        return self.clear and self.difference * MEASURES[self.measure].better < 0


@dataclass(frozen=True)
class Comparison:
    """Two or more audits, and what differs from the first."""

    runs: list[AuditResult]
    matched: int
    """Prompts that all runs have."""
    differences: list[Difference]

    @property
    def status(self) -> int:
        """The exit status of the command: 1 if a run is clearly worse than the first in some measure, else 0."""
        return int(any(d.worse for d in self.differences))

    def to_dict(self) -> dict[str, Any]:
        """As plain values, without the groups."""
        runs = [{"path": r.path, "summary": asdict(r.summary), "verdict": r.verdict} for r in self.runs]
        differences = [asdict(d) | {"worse": d.worse} for d in self.differences]
        return plain({"runs": runs, "matched": self.matched, "status": self.status, "differences": differences})

    def show(self) -> str:
        """The comparison as text."""
        lines = [
            f"{LETTERS[k]}  {r.path}: {r.summary.groups:,} groups, {r.summary.steps:,} steps. {r.verdict}"
            for k, r in enumerate(self.runs)
        ]
        lines.append(f"{self.matched:,} prompts are in {'both' if len(self.runs) == 2 else 'all'} runs")
        for run in range(1, len(self.runs)):
            lines += ["", *self._table(run)]
        return "\n".join(
            [
                *lines,
                "",
                f"* the 95 % interval does not hold 0; bootstrap, {REPLICATES:,} replicates, seed {SEED}",
                "** nor does it when all measures are judged at once (Bonferroni)"
                + ("; clearly worse than A: exit status 1" if self.status else ""),
            ]
        )

    def _table(self, run: int) -> list[str]:
        b = LETTERS[run]
        lines = [f"{'':<34}{'A':>10}{b:>10}{b + ' - A':>10}   95 % interval"]
        for d in self.differences:
            if d.run != run:
                continue
            mark = "" if d.low <= 0 <= d.high else "  **" if d.clear else "  *"
            how = f"{d.units:,} prompts, paired" if d.paired else f"{d.units:,} groups, not paired"
            worse = "  worse" if d.worse else ""
            lines.append(
                f"{MEASURES[d.measure].title:<34}{d.a:>10.4g}{d.b:>10.4g}{d.difference:>+10.4g}   "
                f"[{d.low:+.4g}, {d.high:+.4g}]{mark}{worse}  ({how})"
            )
        return lines

    def write(self, directory: str | Path) -> tuple[Path, Path]:
        """Writes compare.html and compare.json into `directory`; their paths."""
        return write(self, Path(directory))


def compare(*paths: str | Path, **options: Any) -> Comparison:
    """The audits of two or more runs and their differences from the first; options as for `audit`.

    A measure is paired if at least two prompts are in all runs: then its unit is the prompt, averaged over its groups in each
    run. Otherwise groups are resampled in each run on its own.
    """
    if not 2 <= len(paths) <= len(LETTERS):
        raise RovrlError(f"compare takes 2 to {len(LETTERS)} runs, not {len(paths)}")
    runs = [audit(path, **options) for path in paths]
    named = [prompts(run) or [] for run in runs]
    both = sorted(set(named[0]).intersection(*named[1:]))
    values = [values_by_group(run) for run in runs]
    common = [measure for measure in MEASURES if all(measure in found for found in values)]
    judged = max(1, sum(MEASURES[measure].better != 0 for measure in common) * (len(runs) - 1))
    differences = []
    for run in range(1, len(runs)):
        for measure in common:
            x, y = values[0][measure], values[run][measure]
            found = None
            if len(both) >= 2:
                sides = (by_prompt(x, named[0], both), by_prompt(y, named[run], both))
                found = paired(measure, *sides, run, judged)
            found = found or unpaired(measure, x, y, run, judged)
            if found is not None:
                differences.append(found)
    return Comparison(runs, len(both), differences)


def paired(measure: str, x: Array, y: Array, run: int = 1, judged: int = 1) -> Difference | None:
    """The mean of y - x over the prompts where both are known; None if there are fewer than two."""
    good = np.isfinite(x) & np.isfinite(y)
    if good.sum() < 2:
        return None
    x, y = x[good], y[good]
    replicates = resampled(y - x, draws(len(x), REPLICATES, np.random.default_rng(SEED)))
    return _difference(measure, x, y, replicates, True, len(x), run, judged)


def unpaired(measure: str, x: Array, y: Array, run: int = 1, judged: int = 1) -> Difference | None:
    """The difference of the means over groups, each run drawn again on its own; None with fewer than two groups."""
    x, y = x[np.isfinite(x)], y[np.isfinite(y)]
    if len(x) < 2 or len(y) < 2:
        return None
    generator = np.random.default_rng(SEED)
    after, before = (resampled(values, draws(len(values), REPLICATES, generator)) for values in (y, x))
    return _difference(measure, x, y, after - before, False, len(x) + len(y), run, judged)


def _difference(
    measure: str, x: Array, y: Array, replicates: Array, pairs: bool, units: int, run: int, judged: int
) -> Difference:
    low, high = limits(replicates)
    lowest, highest = limits(replicates, TAIL / judged)
    a, b = float(x.mean()), float(y.mean())
    clear = bool(lowest > 0 or highest < 0)
    return Difference(measure, a, b, float(y.mean() - x.mean()), low, high, pairs, units, run, clear)
