"""How often honest runs are accused: every world, group size and shape of a run, and which codes did it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from rovrl.audit.faults.codes import codes
from rovrl.audit.faults.honest import HONEST, SHAPES, SIZES
from rovrl.audit.faults.simulated import SimulatedRun


def accusations(seeds: range) -> list[dict[str, Any]]:
    """One row per world, group size and shape: how many honest runs, one per seed, have any finding, and which."""
    rows = []
    for world, rewards in HONEST.items():
        for size in SIZES:
            for steps, prompts in SHAPES:
                shape = steps, prompts, size
                found = [codes(SimulatedRun(rewards(np.random.default_rng((seed, 1)), shape))) for seed in seeds]
                rows.append(
                    {
                        "world": world,
                        "group": size,
                        "steps": steps,
                        "prompts": prompts,
                        "accused": sum(map(bool, found)),
                        "codes": dict(Counter(code for run in found for code in sorted(run))),
                    }
                )
    return rows


def markdown(rows: list[dict[str, Any]], seeds: range) -> str:
    """The table of docs/audit-faults.md: of each world and size the runs accused in the worst shape, and over all shapes."""
    lines = [
        "| honest world | " + " | ".join(f"groups of {size}" for size in SIZES) + " |",
        "|---|" + "---:|" * len(SIZES),
    ]
    for world in HONEST:
        cells = [[row["accused"] for row in rows if (row["world"], row["group"]) == (world, size)] for size in SIZES]
        shown = " | ".join(f"{max(cell)} of {len(seeds)}, {sum(cell)} of {len(seeds) * len(cell)}" for cell in cells)
        lines.append(f"| {world} | {shown} |")
    shapes = ", ".join(f"{steps} × {prompts}" for steps, prompts in SHAPES)
    return "\n".join(
        [*lines, "", f"Accused in the worst shape, and over all: {shapes} (steps × prompts), {len(seeds)} runs each."]
    )
