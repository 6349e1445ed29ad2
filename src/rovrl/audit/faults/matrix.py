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

from rovrl.audit.faults.simulated import FAULTS, GROUP, PROMPTS, SIMULATIONS, STEPS, TOKENS, SimulatedRun
from rovrl.audit.judge.codes import thresholds
from rovrl.audit.judge.findings import Evidence, findings
from rovrl.audit.measure.ratios import RatioTable, weights
from rovrl.audit.measure.statistics import group_table
from rovrl.audit.read.rollouts import Rollouts
from rovrl.audit.read.rows import Notes
from rovrl.audit.read.tables import pa
from rovrl.config import RatioChannel, RewardChannel
from rovrl.output.files import write_text
from rovrl.output.progress import silent


def codes(
    run: SimulatedRun,
    channel: RewardChannel = RewardChannel(),  # noqa: B008 - frozen
    ratio: RatioChannel = RatioChannel(),  # noqa: B008 - frozen
) -> set[str]:
    """The reason codes that the audit of a simulated run reports."""
    reward = run.reward.reshape(-1, GROUP)
    step = np.repeat(np.arange(1, STEPS + 1), PROMPTS)
    order = run.repeat if run.repeat is not None else np.arange(len(reward))
    reward, step = reward[order], step[order]
    groups = len(reward)
    rollouts = Rollouts(
        "simulated",
        [],
        reward=reward.ravel(),
        start=np.arange(groups + 1) * GROUP,
        step=step,
        label=pa.array([str(k) for k in range(groups)], type=pa.large_string()),
        file=np.zeros(groups * GROUP, dtype=np.int32),
        row=np.arange(groups * GROUP),
        notes=Notes(),
    )
    table, _ = group_table(rollouts, channel, silent)
    return {
        finding.code for finding in findings(Evidence(rollouts, table, _ratio_table(run, ratio), (0, 0)), thresholds())
    }


def _ratio_table(run: SimulatedRun, channel: RatioChannel) -> RatioTable:
    mean, soft = weights(list(run.ratios), channel)
    n = len(mean)
    sign = np.where(np.arange(n) % 2, 1.0, -1.0)
    zeros = np.zeros(n, dtype=np.int64)
    band = np.full(n, 3e-4), np.full(n, 4e-4)
    return RatioTable(zeros, zeros, np.full(n, TOKENS), mean, soft, sign, *band)


def matrix(seeds: int) -> list[dict[str, Any]]:
    """One row per world and fault: share of runs in which it was found, and which other codes were reported how often."""
    rows = []
    for world, simulate in SIMULATIONS.items():
        for fault, (plant, expected) in {"none (clean)": (None, set()), **FAULTS}.items():
            found, other = 0, 0
            for seed in range(seeds):
                run = simulate(np.random.default_rng((seed, 1)))
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
                    "found": found / seeds,
                    "other": other / seeds,
                }
            )
    return rows


def markdown(rows: list[dict[str, Any]], seeds: int) -> str:
    """The table of docs/audit-faults.md."""
    worlds = list(SIMULATIONS)
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
    return "\n".join([*lines, "", f"{seeds} runs per cell, seeds 0 to {seeds - 1}."])


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the matrix; with --write puts it into the page of the documentation, between its marks."""
    parser = argparse.ArgumentParser(prog="python -m rovrl.audit.faults.matrix", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", metavar="FILE", help="replace the table between the marks in this file")
    args = parser.parse_args(argv)
    rows = matrix(max(1, args.seeds))
    table = markdown(rows, max(1, args.seeds))
    print(json.dumps({"seeds": args.seeds, "rows": rows}) if args.json else table)
    if args.write:
        path = Path(args.write)
        before, _, rest = path.read_text(encoding="utf-8").partition("<!-- matrix -->")
        after = rest.partition("<!-- end of matrix -->")[2]
        write_text(path, f"{before}<!-- matrix -->\n{table}\n<!-- end of matrix -->{after}")
    return 0
