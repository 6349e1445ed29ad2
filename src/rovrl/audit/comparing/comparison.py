"""`compare(a, b, ...)`: the audits of several runs and what differs from the first."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rovrl.audit.comparing.differences import REPLICATES, SEED, Difference, by_prompt, paired, unpaired
from rovrl.audit.comparing.measures import LETTERS, MEASURES, prompts, values_by_group
from rovrl.audit.comparing.page import write
from rovrl.audit.result import AuditResult
from rovrl.audit.run import audit
from rovrl.errors import RovrlError
from rovrl.output.files import plain


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
