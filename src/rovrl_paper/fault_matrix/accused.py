"""How often honest runs are accused: every world, group size and shape of a run, and which codes did it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from rovrl_paper.fault_matrix.codes import codes
from rovrl_paper.fault_matrix.honest import HONEST, SHAPES, SIZES
from rovrl_paper.fault_matrix.simulated import SimulatedRun


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


def markdown(rows: list[dict[str, Any]], seeds: range) -> str:
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
