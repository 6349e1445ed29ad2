"""What an audit found, typed: counts, verdict, findings, certificate, and every group's statistics."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import first_by
from rovrl.audit.describe.description import Description, describe
from rovrl.audit.judge.certificate import Certificate, tolerated
from rovrl.audit.judge.evidence import Evidence
from rovrl.audit.judge.findings import Finding
from rovrl.audit.judge.totals import Summary
from rovrl.audit.measure.ratios import RatioTable
from rovrl.audit.measure.settings import BySteps
from rovrl.audit.measure.statistics import GroupTable
from rovrl.audit.read.notes import Note
from rovrl.audit.read.rollouts import Rollouts
from rovrl.audit.read.rows import Reader
from rovrl.audit.show.export import as_html, flagged, group_frame, write_flagged
from rovrl.audit.show.page import write
from rovrl.audit.show.payload import payload
from rovrl.audit.show.summary import text
from rovrl.config import RatioChannel, RewardChannel


@dataclass(frozen=True)
class AuditResult:
    """The result of `rovrl.audit.audit`. `status` is the exit status of the command: 0 healthy or to decide, 1 findings."""

    path: Path
    kind: str
    files: list[Path]
    summary: Summary
    findings: list[Finding]
    questions: list[Note]
    """The notes that ask for a decision: what may be meant, and what the audit cannot know."""
    notes: list[Note]
    """Everything to know about the data, the questions among it."""
    certificate: Certificate | None
    thresholds: dict[str, float]
    groups: GroupTable
    """Every group's statistics; see `worst` for an order and `rewards` for one group's rewards."""
    steps: dict[str, NDArray[Any]]
    ratios: RatioTable | None
    reward_channel: RewardChannel
    ratio_channel: RatioChannel
    settings: BySteps = field(repr=False)
    """What credit is measured with, every number filled in, by step; -1 if equal for all."""
    evidence: Evidence = field(repr=False)
    """What the findings were made from."""
    rollouts: Rollouts = field(repr=False)
    reader: Reader = field(repr=False)

    @property
    def status(self) -> int:
        """0 if nothing is above its threshold, else 1."""
        return 1 if self.findings else 0

    @property
    def state(self) -> str:
        """The word for the status: "healthy", "to decide" (status 0 too: nothing crosses a threshold) or "findings"."""
        return "findings" if self.findings else "to decide" if self.questions else "healthy"

    @property
    def verdict(self) -> str:
        """One plain sentence, with the reason codes."""
        if not self.findings and self.questions:
            asked, codes = len(self.questions), ", ".join(dict.fromkeys(note.code for note in self.questions))
            return f"Nothing crosses a threshold, and {asked} thing{'s' * (asked > 1)} to decide: {codes}."
        if not self.findings:
            return "Healthy: nothing is above its threshold."
        codes = ", ".join(finding.code for finding in self.findings)
        return f"{len(self.findings)} finding{'s' * (len(self.findings) > 1)} above threshold: {codes}."

    @cached_property
    def description(self) -> Description:
        """Lengths, truncation, diversity, accuracy and the reward functions, read in one more pass when first asked for."""
        return describe(self.reader, self.rollouts, self.groups, self.reward_channel)

    @cached_property
    def tolerated(self) -> str | None:
        """How far bad rewards can change the advantages of the others, for certain, in one sentence; when first asked for."""
        return tolerated(self.rollouts, self.groups, self.reward_channel)

    def rewards(self, group: int) -> NDArray[np.float64]:
        """The rewards of one group; NaN where there is no finite one."""
        return self.rollouts.reward[self.rollouts.rows_of(group)]

    def worst(self, count: int | None = None) -> NDArray[np.int64]:
        """Group numbers, those that lost the most contrast first, then by sign changes, reference shift, missing rewards."""
        table = self.groups
        with np.errstate(over="ignore"):
            shift = np.abs(np.nan_to_num(table.shift)) / np.maximum(np.nan_to_num(table.spread), 1e-12)
        keys = (
            -np.nan_to_num(table.lost_own if self.evidence.logged else table.lost),
            -table.dominating,
            -table.flips,
            table.finite - table.size,
            -np.nan_to_num(shift),
        )
        return first_by(keys, len(table.size) if count is None else count)

    def dominating(self, group: int) -> list[int]:
        """Which responses of a group dominate it."""
        low, count = int(self.groups.dominating_low[group]), int(self.groups.dominating[group])
        rewards = self.rewards(group)
        order = [i for i in np.argsort(rewards, kind="stable").tolist() if not np.isnan(rewards[i])]
        return sorted(order[:low] + order[len(order) - (count - low) :]) if count else []

    def to_dict(self, groups: int = 5000) -> dict[str, Any]:
        """Everything the page shows, as plain values (strict JSON: no NaN): `groups` worst groups, with texts of some."""
        return payload(self, groups)

    def write(self, directory: str | Path, groups: int = 5000) -> tuple[Path, Path]:
        """Writes audit.html and audit.json into `directory`; their paths."""
        return write(self, Path(directory), groups)

    def flagged(self) -> Any:
        """A pyarrow table of the responses that a finding or a note speaks of, each with why and with its texts."""
        return flagged(self)

    def write_flagged(self, path: str | Path) -> Path:
        """Writes `flagged()` as CSV (no text can act as a formula) or Parquet, by the name of the file; its path."""
        return write_flagged(self, Path(path))

    def to_pandas(self) -> Any:
        """A pandas data frame with one row per group: step, label and every statistic."""
        return group_frame(self)

    def _repr_html_(self) -> str:
        return as_html(self)

    def show(self) -> str:
        """The terminal summary as text."""
        return text(self)
