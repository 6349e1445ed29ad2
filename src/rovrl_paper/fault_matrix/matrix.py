"""Simulated runs before the audit: which planted faults are found, and how often an honest run is accused, by which codes."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from rovrl.audit.arrays import text_array
from rovrl.audit.judge.evidence import Evidence
from rovrl.audit.judge.findings import findings, thresholds
from rovrl.audit.judge.questions import questions
from rovrl.audit.measure.ratios import RatioTable, weights
from rovrl.audit.measure.statistics import group_table
from rovrl.audit.read.notes import Notes
from rovrl.audit.read.rollouts import Rollouts
from rovrl.config import RatioChannel, RewardChannel
from rovrl.output.progress import silent
from rovrl_paper.fault_matrix.runs import (
    ASKED,
    FAULTS,
    GROUP,
    HONEST,
    OUTLIERS,
    PROMPTS,
    SHAPES,
    SIZES,
    STEPS,
    TOKENS,
    SimulatedRun,
    token_ratios,
)


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


PLANTED = ("score", "rule", "graded", "heavy")
"""The worlds in which faults are planted."""
CLEAN = "none (clean)"


def planted_cells() -> list[tuple[str, str]]:
    """(world, fault) of every row, without a fault first."""
    return [(world, fault) for world in PLANTED for fault in (CLEAN, *FAULTS)]


def planted(world: str, fault: str, seeds: range) -> dict[str, Any]:
    """The shares of runs, one per seed, in which the fault was found, found or asked about, and in which others came up."""
    plant, expected = FAULTS.get(fault, (None, set()))
    notes = ASKED if expected <= OUTLIERS else expected
    found = asked = other = 0
    for seed in seeds:
        generator = np.random.default_rng((seed, 1))
        run = SimulatedRun(HONEST[world](generator, (STEPS, PROMPTS, GROUP)), token_ratios(generator))
        if plant is not None:
            run = plant(run, np.random.default_rng((seed, 2)))
        said = reported(run)
        found += bool(said.findings & expected)
        asked += bool(said.findings & expected or said.notes & notes)
        other += bool(said.findings - expected)
    shares = {name: n / len(seeds) for name, n in (("found", found), ("asked", asked), ("other", other))}
    return {"world": world, "fault": fault, "expected": sorted(expected), **shares}


def planted_table(rows: list[dict[str, Any]], seeds: range) -> str:
    """The first table of docs/audit-faults.md."""
    worlds = list(dict.fromkeys(row["world"] for row in rows))
    cell = {(row["world"], row["fault"]): row for row in rows}
    lines = [
        "| fault | reason code | " + " | ".join(worlds) + " |",
        "|---|---|" + "---:|" * len(worlds),
        "| none: share of clean runs with any finding | any | "
        + " | ".join(_share(cell[world, CLEAN], "other") for world in worlds)
        + " |",
    ]
    for fault, (_, expected) in FAULTS.items():
        shares = " | ".join(_share(cell[world, fault], "found") for world in worlds)
        lines.append(f"| {fault} | {' or '.join(f'`{code}`' for code in sorted(expected))} | {shares} |")
    return "\n".join([*lines, "", f"{len(seeds)} runs per cell, seeds {seeds[0]} to {seeds[-1]}."])


def _share(row: dict[str, Any], name: str) -> str:
    """The share of runs with a finding; in brackets that with a finding or a note, where it is larger."""
    shown, asked = (f"{100 * share:.0f} %" for share in (row[name], max(row[name], row["asked"])))
    return shown if shown == asked else f"{shown} ({asked})"


def honest_cells() -> list[tuple[str, int, int, int]]:
    """(world, responses per prompt, steps, prompts per step) of every row."""
    return [(world, size, *shape) for world in HONEST for size in SIZES for shape in SHAPES]


def accused(world: str, size: int, steps: int, prompts: int, seeds: range) -> dict[str, Any]:
    """How many honest runs, one per seed, have any finding, and which."""
    shape = steps, prompts, size
    found = [codes(SimulatedRun(HONEST[world](np.random.default_rng((seed, 1)), shape))) for seed in seeds]
    return {
        "world": world,
        "group": size,
        "steps": steps,
        "prompts": prompts,
        "accused": sum(map(bool, found)),
        "codes": dict(Counter(code for run in found for code in sorted(run))),
    }


def honest_table(rows: list[dict[str, Any]], seeds: range) -> str:
    """The second table of docs/audit-faults.md: of each world and size the runs accused in the worst shape, and over all."""
    lines = [
        "| honest world | " + " | ".join(f"groups of {size}" for size in SIZES) + " |",
        "|---|" + "---:|" * len(SIZES),
    ]
    for world in dict.fromkeys(row["world"] for row in rows):
        cells = [[row["accused"] for row in rows if (row["world"], row["group"]) == (world, size)] for size in SIZES]
        shown = " | ".join(f"{max(cell)} of {len(seeds)}, {sum(cell)} of {len(seeds) * len(cell)}" for cell in cells)
        lines.append(f"| {world} | {shown} |")
    shapes = ", ".join(f"{steps} × {prompts}" for steps, prompts in SHAPES)
    return "\n".join(
        [*lines, "", f"Accused in the worst shape, and over all: {shapes} (steps × prompts), {len(seeds)} runs each."]
    )
