"""`python -m rovrl.tasks.prepare TASK --out DIR`: a task's sets as the Parquet files that verl trains on and validates with."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rovrl.errors import RovrlError, require
from rovrl.tasks.catalog import SETS, TRAINING, Example, load

_GOLD = {"math": "answer", "govreport": "summary", "toolcall": "ground_truth"}


def verl_row(name: str, task: str, index: int, example: Example) -> dict[str, Any]:
    """One row of verl's Parquet layout; `extra_info` carries what rewards read besides the ground truth."""
    extra = {"index": index, "id": example["id"], "question": example["prompt"][-1]["content"]}
    if task == "govreport":
        extra = {"index": index, "id": example["id"], "report": example["report"]}
    return {
        "data_source": name,
        "prompt": example["prompt"],
        "ability": task,
        "reward_model": {"style": "rule", "ground_truth": example[_GOLD[task]]},
        "extra_info": extra,
    }


def write(name: str, out: Path, data: Path | None = None, limit: int | None = None) -> Path:
    """Writes `out/NAME.parquet` and returns its path; a file that is there is replaced only when the new one is whole."""
    arrow, parquet = require("pyarrow", extra="tasks"), require("pyarrow.parquet", extra="tasks")
    task = SETS[name].task
    rows = [verl_row(name, task, index, example) for index, example in enumerate(load(name, data, limit))]
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{name}.parquet"
    unfinished = path.with_suffix(".unfinished")
    parquet.write_table(arrow.Table.from_pylist(rows), unfinished)
    unfinished.replace(path)
    return path


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m rovrl.tasks.prepare", description=__doc__)
    parser.add_argument("task", choices=sorted(TRAINING))
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="local copies (NAME.jsonl or NAME.parquet) instead of the Hub"
    )
    parser.add_argument("--limit", type=int, help="rows per set")
    args = parser.parse_args(argv)
    try:
        for name, entry in SETS.items():
            if entry.task == args.task:
                print(write(name, args.out, args.data, args.limit))
    except RovrlError as error:
        print(f"rovrl: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
