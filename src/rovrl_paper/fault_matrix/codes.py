"""The reason codes that the audit reports for a simulated run, and the notes by which it asks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rovrl.audit.arrays import text_array
from rovrl.audit.judge.codes import thresholds
from rovrl.audit.judge.evidence import Evidence
from rovrl.audit.judge.findings import findings
from rovrl.audit.judge.questions import questions
from rovrl.audit.measure.ratios import RatioTable, weights
from rovrl.audit.measure.statistics import group_table
from rovrl.audit.read.notes import Notes
from rovrl.audit.read.rollouts import Rollouts
from rovrl.config import RatioChannel, RewardChannel
from rovrl.output.progress import silent
from rovrl_paper.fault_matrix.simulated import TOKENS, SimulatedRun


class Reported(NamedTuple):
    """What the audit of a run says: the codes of its findings, and those of the notes that ask the user."""

    findings: set[str]
    notes: set[str]


def codes(run: SimulatedRun) -> set[str]:
    """The reason codes that the audit of a simulated run reports as findings."""
    return reported(run).findings


def reported(
    run: SimulatedRun,
    channel: RewardChannel = RewardChannel(),  # noqa: B008 - frozen
    ratio: RatioChannel = RatioChannel(),  # noqa: B008 - frozen
) -> Reported:
    """The codes of the findings and of the notes that the audit of a simulated run has."""
    steps, prompts, size = run.reward.shape
    reward = run.reward.reshape(-1, size)
    step = np.repeat(np.arange(1, steps + 1), prompts)
    order = run.repeat if run.repeat is not None else np.arange(len(reward))
    reward, step = reward[order], step[order]
    groups = len(reward)
    rollouts = Rollouts(
        "simulated",
        [],
        reward=reward.ravel(),
        start=np.arange(groups + 1) * size,
        step=step,
        label=text_array(str(k) for k in range(groups)),
        file=np.zeros(groups * size, dtype=np.int32),
        row=np.arange(groups * size),
        notes=Notes(),
    )
    table, _ = group_table(rollouts, channel, silent)
    evidence = Evidence(rollouts, table, _ratio_table(run, ratio), (0, 0))
    found = {finding.code for finding in findings(evidence, thresholds())}
    return Reported(found, {note.code for note in questions(evidence)})


def _ratio_table(run: SimulatedRun, channel: RatioChannel) -> RatioTable | None:
    if run.ratios is None:
        return None
    mean, soft = weights(list(run.ratios), channel)
    n = len(mean)
    sign = np.where(np.arange(n) % 2, 1.0, -1.0)
    zeros = np.zeros(n, dtype=np.int64)
    band = np.full(n, 3e-4), np.full(n, 4e-4)
    return RatioTable(zeros, zeros, np.full(n, TOKENS), mean, soft, sign, *band)
