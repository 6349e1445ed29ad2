"""The audit of a million responses beside pyarrow reading the same file and computing every group's mean and deviation.

62,500 groups of 16 in Parquet, once with numbers only (step, group, reward: the harder ratio, since there is little to read)
and once with prompts and completions, as real dumps have. Both sides alternate in one process; CPU time counts, so that other
load on the machine does not. A wrong group column makes one group of everything: that must not take longer. Memory is the peak
of a fresh process that imports, audits and shows the summary (Linux).
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from measuring import Row, compare
from rovrl.audit import audit

GROUP = 16
PER_STEP = 125
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


def shown(path: Path) -> str:
    """What `rovrl audit PATH --no-page` does: everything up to the summary."""
    return audit(path).show()


def plain(path: Path) -> int:
    """What any audit has to do at least: read the columns that it needs, group, mean and standard deviation."""
    table = pq.read_table(path, columns=["step", "group", "reward"])
    return table.group_by("group").aggregate([("reward", "mean"), ("reward", "stddev")]).num_rows


def peak(path: Path) -> float:
    """Bytes at the peak of a process that audits `path`."""
    done = subprocess.run([sys.executable, "-c", PEAK, str(path)], capture_output=True, text=True, check=True)
    return 1024 * float(done.stdout.split()[-1])


def run(quick: bool) -> list[Row]:
    """Two rows per file: time against pyarrow, and peak memory."""
    groups, repeats = (6_250, 3) if quick else (62_500, 11)
    rows = []
    with tempfile.TemporaryDirectory() as place:
        for name, texts in (("numbers only", False), ("with texts", True)):
            path = write(Path(place) / f"{texts}.parquet", groups, texts)
            title = f"audit of {groups * GROUP:,} responses, {name}"
            rows.append(
                compare(
                    f"{title} / pyarrow's mean and deviation",
                    partial(shown, path),
                    partial(plain, path),
                    repeats,
                    must=2.5,
                    goal=2,
                )
            )
            rows.append(Row(f"{title}: peak memory, GB", peak(path) / 1e9, must=1))
        small = Path(place) / "four.csv"
        small.write_text("step,group,reward\n0,a,1\n0,a,0\n0,b,1\n0,b,0\n")
        command = ["-m", "rovrl", "audit", str(small), "--no-page"]
        title = "audit of four rows, from the command to the summary / import pyarrow"
        rows.append(ratio(title, command, ["-c", "import pyarrow"], repeats))
        one, many = large_group(Path(place), 1), large_group(Path(place), 1250)
        title = "audit of one group of 20,000 / of 1,250 groups of 16"
        rows.append(compare(title, partial(audit, one), partial(audit, many), repeats, must=3))
    return rows


def ratio(title: str, ours: list[str], theirs: list[str], repeats: int) -> Row:
    """The CPU time of one fresh Python over that of another, in turns: the median with its quartiles."""
    pairs = [(processor(ours), processor(theirs)) for _ in range(repeats)]
    low, middle, high = statistics.quantiles([a / b for a, b in pairs], n=4)
    return Row(title, middle, low, high, must=10, goal=5)


def processor(words: list[str]) -> float:
    """CPU seconds of a fresh Python with these words."""
    before = os.times()
    subprocess.run([sys.executable, *words], capture_output=True, check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def large_group(place: Path, groups: int) -> Path:
    """20,000 normal rewards in so many groups."""
    path = place / f"{groups}.parquet"
    reward = np.random.default_rng(0).normal(size=20_000)
    pq.write_table(pa.table({"group": np.arange(20_000) * groups // 20_000, "reward": reward}), path)
    return path


if __name__ == "__main__":
    for row in run(quick="--quick" in sys.argv[1:]):
        print(f"{row.name:<75} {row.value:6.2f}  must be at most {row.must:g}  {row.note}")
