"""The audit of a million responses beside pyarrow reading the same file and computing every group's mean and deviation.

62,500 groups of 16 in Parquet, once with numbers only (step, group, reward: the harder ratio, since there is little to read)
and once with prompts and completions, as real dumps have. Both sides alternate in one process; CPU time counts, so that other
load on the machine does not. Memory is the peak of a fresh process that imports, audits and shows the summary (Linux).
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rovrl.audit import audit

GROUP = 16
PER_STEP = 125
MOST_TIMES, MOST_BYTES = 4.0, 1e9
PEAK = """
import sys
from rovrl.audit import audit
audit(sys.argv[1]).show()
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""


def write(path: Path, groups: int, texts: bool) -> Path:
    """Rewards like a learned score, one in a hundred spiked; texts: ids, prompts, completions of some 100 characters."""
    generator = np.random.default_rng(0)
    shape = (groups, GROUP)
    reward = (
        generator.normal(0, 1.15, (groups, 1))
        + 0.33 * (generator.random(shape) < 0.5)
        + generator.normal(0, 0.05, shape)
    )
    reward += 18 * (generator.random(shape) < 0.01)
    group = np.repeat(np.arange(groups), GROUP)
    columns: dict[str, Any] = {"step": group // PER_STEP, "group": group, "reward": reward.ravel()}
    if texts:
        ids = pa.array([f"{k:08x}-{k * 7919 % 65536:04x}-prompt" for k in range(groups)])
        prompts = pa.array(
            [f"What is {k} plus {3 * k}? Think step by step, then give the number alone." for k in range(groups)]
        )
        columns["group"], columns["prompt"] = ids.take(pa.array(group)), prompts.take(pa.array(group))
        columns["completion"] = [
            f"First {k}, then {k * 7919 % 1000003}, {'so ' * (k % 40)}it is {k % 97}." for k in range(len(group))
        ]
    pq.write_table(pa.table(columns), path)
    return path


def plain(path: Path) -> int:
    """What any audit has to do at least: read the file, group, mean and standard deviation."""
    table = pq.read_table(path)
    return table.group_by("group").aggregate([("reward", "mean"), ("reward", "stddev")]).num_rows


def seconds(path: Path, repeats: int) -> tuple[list[float], list[float]]:
    """CPU seconds of the audit and of pyarrow, alternating; the first of each warms up."""
    ours, theirs = [], []
    for _ in range(repeats + 1):
        for work, taken in ((audit, ours), (plain, theirs)):
            start = time.process_time()
            work(path)
            taken.append(time.process_time() - start)
    return ours[1:], theirs[1:]


def peak(path: Path) -> float:
    """Bytes at the peak of a process that audits `path`."""
    done = subprocess.run([sys.executable, "-c", PEAK, str(path)], capture_output=True, text=True, check=True)
    return 1024 * float(done.stdout.split()[-1])


def measure(quick: bool) -> list[dict[str, Any]]:
    """One row per file and measure: value, limit, spread, both medians."""
    groups, repeats = (6_250, 3) if quick else (62_500, 9)
    rows = []
    with tempfile.TemporaryDirectory() as place:
        for name, texts in (("numbers only", False), ("with prompts and completions", True)):
            path = write(Path(place) / f"{texts}.parquet", groups, texts)
            ours, theirs = seconds(path, repeats)
            ratios = sorted(a / b for a, b in zip(ours, theirs, strict=True))
            title = f"audit of {groups * GROUP:,} responses, {name}"
            rows.append(
                {
                    "name": f"{title}: time / pyarrow",
                    "value": statistics.median(ratios),
                    "low": ratios[0],
                    "high": ratios[-1],
                    "must": MOST_TIMES,
                    "seconds": statistics.median(ours),
                    "beside": statistics.median(theirs),
                }
            )
            rows.append({"name": f"{title}: peak bytes", "value": peak(path), "must": MOST_BYTES})
    return rows


def main(quick: bool) -> None:
    """Prints the rows, as text or with --json."""
    rows = measure(quick)
    if "--json" in sys.argv[1:]:
        print(json.dumps(rows))
        return
    for row in rows:
        times = f"  ({row['seconds']:.3f} s and {row['beside']:.3f} s of CPU)" if "beside" in row else ""
        print(f"{row['name']:<78} {row['value']:>14,.2f}  must be at most {row['must']:,.0f}{times}")


if __name__ == "__main__":
    main(quick="--quick" in sys.argv[1:])
