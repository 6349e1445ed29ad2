"""Simulated runs with one planted fault each: which are found, and how often a clean run is accused."""

from __future__ import annotations

from typing import Any

import numpy as np

from rovrl_paper.fault_matrix.codes import reported
from rovrl_paper.fault_matrix.honest import HONEST
from rovrl_paper.fault_matrix.simulated import (
    ASKED,
    FAULTS,
    GROUP,
    OUTLIERS,
    PROMPTS,
    STEPS,
    SimulatedRun,
    token_ratios,
)

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


def markdown(rows: list[dict[str, Any]], seeds: range) -> str:
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
