"""The words of the command line as options of `rovrl.audit.audit`."""

from __future__ import annotations

import argparse
import json
import math
import os
from pathlib import Path
from typing import Any

from rovrl.config import RatioChannel, RewardChannel
from rovrl.errors import RovrlError

COLUMNS = (
    "reward", "group", "step", "prompt", "completion", "advantage", "log_ratios", "logp_new", "logp_old", "mask",
)  # fmt: skip
"""The fields of `Columns` that name a column of the dump, each with an option of its own."""


def options_of(args: argparse.Namespace) -> dict[str, Any]:
    """The options of an audit, or a RovrlError that says which word is wrong."""
    from rovrl.audit.read.rows import Columns

    given = {name: getattr(args, f"{name}_column") for name in COLUMNS}
    weights = tuple(
        (name, _number(value, "--reward-weight")) for name, value in _pairs(args.reward_weight, "--reward-weight")
    )
    if strange := [f"{name}={weight}" for name, weight in weights if not math.isfinite(weight)]:
        raise RovrlError(f"--reward-weight needs a finite number, not {strange[0]}")
    return {
        "format": args.format,
        "columns": Columns(**given, reward_weights=weights),
        "group_size": args.group_size,
        "keep_evaluation": args.keep_evaluation,
        "reward_channel": _channel(RewardChannel, args.reward, "--reward") if args.reward else None,
        "ratio_channel": _channel(RatioChannel, args.ratio, "--ratio"),
        "clip": _clip(args.clip),
        "expect": _expected(args.expect),
        "threshold": {code: _number(value, "--threshold") for code, value in _pairs(args.threshold, "--threshold")},
    }


def check_flagged(path: Path) -> None:
    """A RovrlError for a place where no flagged responses can be written, which is better known before a long read."""
    if path.suffix.lower() not in (".csv", ".parquet") or os.path.isdir(path):
        kind = "a folder" if os.path.isdir(path) else path.name
        raise RovrlError(f"flagged responses are written as .csv or .parquet, not as {kind}")


def check_out(path: Path) -> None:
    """A RovrlError for a place for the pages that is no folder."""
    if os.path.exists(path) and not os.path.isdir(path):
        raise RovrlError(f"cannot write the audit into {path}: it is a file; name a folder with --out")


def _expected(words: list[str]) -> tuple[str, ...]:
    """The declarations; a range without an end is refused, since it would allow every reward."""
    from rovrl.audit.judge.expect import Expectations

    for word in words:
        if word.startswith("range=") and not Expectations.of([word]).has_range:
            raise RovrlError(f"--expect {word} allows every reward: give LOW:HIGH or one of the two, such as range=0:")
    return tuple(words)


def _pairs(words: list[str], option: str) -> list[tuple[str, str]]:
    for word in words:
        if "=" not in word:
            raise RovrlError(f"{option} takes NAME=VALUE, not {word!r}")
    return [(word.split("=", 1)[0], word.split("=", 1)[1]) for word in words]


def _number(value: str, option: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise RovrlError(f"{option} needs a number, not {value!r}") from None


def _channel(kind: type[RewardChannel] | type[RatioChannel], words: list[str], option: str) -> Any:
    fields = {}
    for name, value in _pairs(words, option):
        try:
            fields[name] = json.loads(value)
        except ValueError:
            fields[name] = value
    try:
        return kind.from_dict(fields)
    except ValueError as error:
        raise RovrlError(f"{option}: {error}") from None


def _clip(words: str | None) -> tuple[float, float] | None:
    if words is None:
        return None
    parts = words.split(",")
    if len(parts) != 2:
        raise RovrlError(f"--clip takes LOW,HIGH such as 3e-4,4e-4, not {words!r}")
    low, high = (_number(part, "--clip") for part in parts)
    if not (0 <= low < 1 and 0 <= high < float("inf")):
        raise RovrlError(f"--clip needs 0 <= LOW < 1 and HIGH >= 0, not {words!r}")
    return low, high
