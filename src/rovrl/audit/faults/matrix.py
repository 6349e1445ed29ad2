"""The fault matrix: simulated runs with one planted fault each; which are found, and how often a clean run is accused.

python -m rovrl.audit.faults --seeds 20 --write docs/audit-faults.md     # or: rovrl audit --fault-matrix
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rovrl.audit.faults import accused
from rovrl.audit.faults.accused import accusations
from rovrl.audit.faults.codes import codes
from rovrl.audit.faults.honest import HONEST
from rovrl.audit.faults.simulated import FAULTS, GROUP, PROMPTS, STEPS, SimulatedRun, token_ratios
from rovrl.output.files import write_text

PLANTED = ("score", "rule", "graded", "heavy")
"""The worlds in which faults are planted."""


def matrix(seeds: range) -> list[dict[str, Any]]:
    """One row per world and fault: share of runs in which it was found, and which other codes were reported how often."""
    rows = []
    for world in PLANTED:
        for fault, (plant, expected) in {"none (clean)": (None, set()), **FAULTS}.items():
            found, other = 0, 0
            for seed in seeds:
                generator = np.random.default_rng((seed, 1))
                run = SimulatedRun(HONEST[world](generator, (STEPS, PROMPTS, GROUP)), token_ratios(generator))
                if plant is not None:
                    run = plant(run, np.random.default_rng((seed, 2)))
                reported = codes(run)
                found += bool(reported & expected)
                other += bool(reported - expected)
            rows.append(
                {
                    "world": world,
                    "fault": fault,
                    "expected": sorted(expected),
                    "found": found / len(seeds),
                    "other": other / len(seeds),
                }
            )
    return rows


def markdown(rows: list[dict[str, Any]], seeds: range) -> str:
    """The table of docs/audit-faults.md."""
    worlds = list(PLANTED)
    cell = {(row["world"], row["fault"]): row for row in rows}
    lines = [
        "| fault | reason code | " + " | ".join(worlds) + " |",
        "|---|---|" + "---:|" * len(worlds),
        "| none: share of clean runs with any finding | any | "
        + " | ".join(f"{100 * cell[world, 'none (clean)']['other']:.0f} %" for world in worlds)
        + " |",
    ]
    for fault, (_, expected) in FAULTS.items():
        shares = " | ".join(f"{100 * cell[world, fault]['found']:.0f} %" for world in worlds)
        lines.append(f"| {fault} | {' or '.join(f'`{code}`' for code in sorted(expected))} | {shares} |")
    return "\n".join([*lines, "", f"{len(seeds)} runs per cell, seeds {seeds[0]} to {seeds[-1]}."])


def main(argv: Sequence[str] | None = None) -> int:
    """Prints both tables; with --write puts them into the page of the documentation, between their marks."""
    parser = argparse.ArgumentParser(prog="python -m rovrl.audit.faults.matrix", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument(
        "--first", type=int, default=0, help="the first seed (0); another for runs that nobody has seen"
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", metavar="FILE", help="replace the table between the marks in this file")
    args = parser.parse_args(argv)
    seeds = range(args.first, args.first + max(1, args.seeds))
    rows, honest = matrix(seeds), accusations(seeds)
    tables = {"matrix": markdown(rows, seeds), "honest": accused.markdown(honest, seeds)}
    print(
        json.dumps({"seeds": list(seeds), "rows": rows, "honest": honest})
        if args.json
        else "\n\n".join(tables.values())
    )
    for name, table in tables.items() if args.write else ():
        _replace(Path(args.write), name, table)
    return 0


def _replace(path: Path, name: str, table: str) -> None:
    """Puts a table between its marks in a page."""
    before, _, rest = path.read_text(encoding="utf-8").partition(f"<!-- {name} -->")
    after = rest.partition(f"<!-- end of {name} -->")[2]
    write_text(path, f"{before}<!-- {name} -->\n{table}\n<!-- end of {name} -->{after}")
