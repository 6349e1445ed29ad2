"""Simulated runs with one planted fault each: which are found, and how often a clean run is accused."""

from __future__ import annotations

from typing import Any

import numpy as np

from rovrl.audit.faults.codes import codes
from rovrl.audit.faults.honest import HONEST
from rovrl.audit.faults.simulated import FAULTS, GROUP, PROMPTS, STEPS, SimulatedRun, token_ratios

PLANTED = ("score", "rule", "graded", "heavy")
"""The worlds in which faults are planted."""
CLEAN = "none (clean)"


def planted_cells() -> list[tuple[str, str]]:
    """(world, fault) of every row, without a fault first."""
    return [(world, fault) for world in PLANTED for fault in (CLEAN, *FAULTS)]


def planted(world: str, fault: str, seeds: range) -> dict[str, Any]:
    """The share of runs, one per seed, in which the fault was found, and in which other codes were reported."""
    plant, expected = FAULTS.get(fault, (None, set()))
    found, other = 0, 0
    for seed in seeds:
        generator = np.random.default_rng((seed, 1))
        run = SimulatedRun(HONEST[world](generator, (STEPS, PROMPTS, GROUP)), token_ratios(generator))
        if plant is not None:
            run = plant(run, np.random.default_rng((seed, 2)))
        reported = codes(run)
        found += bool(reported & expected)
        other += bool(reported - expected)
    shares = {"found": found / len(seeds), "other": other / len(seeds)}
    return {"world": world, "fault": fault, "expected": sorted(expected), **shares}


def markdown(rows: list[dict[str, Any]], seeds: range) -> str:
    """The first table of docs/audit-faults.md."""
    worlds = list(dict.fromkeys(row["world"] for row in rows))
    cell = {(row["world"], row["fault"]): row for row in rows}
    lines = [
        "| fault | reason code | " + " | ".join(worlds) + " |",
        "|---|---|" + "---:|" * len(worlds),
        "| none: share of clean runs with any finding | any | "
        + " | ".join(f"{100 * cell[world, CLEAN]['other']:.0f} %" for world in worlds)
        + " |",
    ]
    for fault, (_, expected) in FAULTS.items():
        shares = " | ".join(f"{100 * cell[world, fault]['found']:.0f} %" for world in worlds)
        lines.append(f"| {fault} | {' or '.join(f'`{code}`' for code in sorted(expected))} | {shares} |")
    return "\n".join([*lines, "", f"{len(seeds)} runs per cell, seeds {seeds[0]} to {seeds[-1]}."])
