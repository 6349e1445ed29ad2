"""`python -m rovrl.records.join`: from what a verl run recorded to the files of `rovrl.records`.

Then `rovrl audit` and the stress tests read them like any other run's.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rovrl.errors import RovrlError
from rovrl.output.files import read_lines
from rovrl.records import RecordWriter


def join(recorded: Path, out: Path, rollouts: Path | None = None) -> dict[str, int]:
    """Writes one record file per step of `recorded` into `out` and returns counts: steps, rows, unmatched.

    Prompts and completions come from verl's own dump (`trainer.rollout_data_dir`) if `rollouts` names it. A row
    without rewards, or of another run, matches no response: it is left out and counted as unmatched.
    """
    steps = sorted(recorded.glob("step_*/rows.json"))
    if not steps:
        raise RovrlError(f"{recorded} holds no recorded step: train with policy_loss.record_dir={recorded}")
    counts = {"steps": 0, "rows": 0, "unmatched": 0}
    for file in steps:
        driver = json.loads(file.read_text())
        texts = _texts(rollouts, driver["step"]) if rollouts is not None else {}
        rows, unmatched = _rows(driver, file.parent, texts)
        counts["unmatched"] += unmatched
        if rows:
            columns = {name: [row[name] for row in rows] for name in rows[0]}
            RecordWriter(out, driver["settings"]).write_step(driver["step"], columns, notes=driver["notes"])
            counts["steps"] += 1
            counts["rows"] += len(rows)
    return counts


def _rows(
    driver: dict[str, Any], directory: Path, texts: dict[str, dict[str, Any]]
) -> tuple[list[dict[str, Any]], int]:
    responses: dict[str, list[dict[str, Any]]] = {}
    for response in driver["responses"]:  # more than one, if they are the same token for token
        responses.setdefault(response["fingerprint"], []).append(response)
    rows, unmatched, seen = [], 0, Counter()
    for kept in _kept(directory):
        name = kept.pop("fingerprint")
        same, place = responses.get(name, []), (name, kept["update"])
        seen[place] += 1
        if not same:
            unmatched += 1
        if seen[place] > len(same):  # tensor-parallel ranks see, and write, the same rows
            continue
        response = same[seen[place] - 1]
        group, session, _ = response["key"].rsplit("_", 2)
        text = texts.get(response["key"], {})
        rows.append(
            {
                "group": group,
                "response": int(session),
                "prompt": text.get("input", ""),
                "completion": text.get("output", ""),
                "reward": response["reward"] if math.isfinite(response["reward"]) else None,
                "reference": driver["references"].get(group),
                "method": "rovr_gspo",
                **kept,
            }
        )
    return sorted(rows, key=lambda row: (row["update"], row["group"], row["response"])), unmatched


def _kept(directory: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(directory.glob("rank_*.npz")):
        try:
            with open(file, "rb") as handle, np.load(handle) as kept:
                parts = dict(kept)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            print(f"{file} is damaged and was left out: {error}", file=sys.stderr)
            continue
        ratios = np.split(parts["log_ratios"], np.cumsum(parts["length"])[:-1])
        for i, name in enumerate(parts["fingerprint"]):
            yield {
                "fingerprint": str(name),
                "update": int(parts["update"][i]),
                "advantage": float(parts["advantage"][i]),
                "length": int(parts["length"][i]),
                "clip_low": float(parts["clip"][0]),
                "clip_high": float(parts["clip"][1]),
                "log_ratios": ratios[i],
            }


def _texts(rollouts: Path, step: int) -> dict[str, dict[str, Any]]:
    rows = read_lines(rollouts / f"{step}.jsonl", "delete that line", whole=lambda row: "uid" in row)
    return {row["uid"]: row for row in rows}


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; prints what was joined."""
    parser = argparse.ArgumentParser(prog="python -m rovrl.records.join", description=__doc__)
    parser.add_argument("recorded", type=Path, help="the run's policy_loss.record_dir")
    parser.add_argument("--rollouts", type=Path, help="the run's trainer.rollout_data_dir, for prompts and completions")
    parser.add_argument("--out", type=Path, required=True, help="where the record files go")
    args = parser.parse_args(argv)
    try:
        counts = join(args.recorded, args.out, args.rollouts)
    except RovrlError as error:
        print(f"rovrl: {error}", file=sys.stderr)
        return 2
    print("{steps} steps, {rows} rows, {unmatched} rows that match no response of their step".format(**counts))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
