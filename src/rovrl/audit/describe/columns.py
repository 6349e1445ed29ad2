"""Which columns of a dump hold a response's length, its end, its verdict and the reward functions, by their usual names."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from rovrl.audit.arrays import Array, numbers_of
from rovrl.audit.read.cells import ArrowBatch, Batch, DictBatch
from rovrl.audit.read.tables import pa, pc

LENGTHS = (
    "length",
    "completion_length",
    "response_length",
    "output_length",
    "completion_tokens",
    "output_tokens",
    "num_tokens",
    "num_completion_tokens",
    "num_output_tokens",
)
"""Columns that count the tokens of a response, or list them."""
TOKEN_LISTS = ("completion_ids", "response_ids", "output_ids", "response_tokens", "completion_token_ids", "log_ratios")
ENDS = ("finish_reason", "stop_reason", "finish_reasons")
CUT = ("truncated", "is_truncated", "completion_truncated", "clipped", "overlong")
CUT_WORDS = {"length", "max_tokens", "max_length", "truncated"}
VERDICTS = ("correct", "is_correct", "acc", "accuracy", "verdict", "passed", "solved", "success", "correctness")
NOT_REWARDS = {
    *(
        "step",
        "global_step",
        "training_step",
        "iteration",
        "update",
        "idx",
        "index",
        "sample_idx",
        "prompt_idx",
        "response",
    ),
    *(
        "group",
        "group_id",
        "uid",
        "id",
        "advantage",
        "advantages",
        "reward",
        "rewards",
        "score",
        "scores",
        "total_reward",
    ),
    *("gts", "ground_truth", "reference", "seed", "epoch", "clip_low", "clip_high", "time", "timestamp", "entropy"),
    *LENGTHS,
    *CUT,
}
_PART = re.compile(
    r"^(rewards?|scores?)[/._-]+(?P<a>.+)$|^(?P<b>.+?)[/._-](rewards?|scores?)([_-]?(func|fn|function))?$"
)


def named(names: Sequence[str], wanted: Sequence[str]) -> str | None:
    """The first of `wanted` that is among `names`, in any case of letters."""
    lower = {name.lower(): name for name in reversed(names)}
    return next((lower[name] for name in wanted if name in lower), None)


def reward_parts(names: Sequence[str], every_number: bool) -> list[str]:
    """The columns of single reward functions: by their names, or every column that is nothing else (TRL, verl)."""
    rest = [name for name in names if name.lower() not in NOT_REWARDS]
    return rest if every_number else [name for name in rest if _PART.match(name.lower())]


def verdict(names: Sequence[str]) -> str | None:
    """The column that says whether a response is right; `accuracy_reward` and `rewards/correct` count too."""
    found = named(names, VERDICTS)
    if found is not None:
        return found
    for name in names:
        match = _PART.match(name.lower())
        if match and (match["a"] or match["b"]) in VERDICTS:
            return name
    return None


def lengths(batch: Batch) -> Array | None:
    """Tokens per response, where the dump says so; else None."""
    name = named(batch.names, LENGTHS)
    if name is not None:
        values = batch.numbers(name)
        return values if np.isfinite(values).any() else None
    name = named(batch.names, TOKEN_LISTS)
    return None if name is None else _list_lengths(batch, name)


def cut_short(batch: Batch) -> Array | None:
    """1 where the dump says that a response hit the limit, 0 where not, NaN where unknown; None without such a column."""
    name = named(batch.names, ENDS)
    if name is not None:
        words = [None if text is None else text.strip('"').lower() for text in batch.texts(name).to_pylist()]
        return np.array([np.nan if not word else float(word in CUT_WORDS) for word in words], dtype=np.float64)
    name = named(batch.names, CUT)
    return None if name is None else as_flags(batch, name)


def as_flags(batch: Batch, name: str) -> Array:
    """A column of verdicts as 0 and 1: numbers, true and false, or those words; anything else is NaN."""
    values = batch.numbers(name)
    if np.isfinite(values).any():
        return values
    words = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
    texts = batch.texts(name).to_pylist()
    return np.array([words.get((text or "").strip().lower(), np.nan) for text in texts], dtype=np.float64)


def _list_lengths(batch: Batch, name: str) -> Array | None:
    if isinstance(batch, ArrowBatch):
        column = batch.batch.column(name)
        if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
            return None
        return numbers_of(pc.list_value_length(column))
    if isinstance(batch, DictBatch):
        cells = [value.get(name) for value in batch.values]
        return np.array([len(cell) if isinstance(cell, list) else np.nan for cell in cells], dtype=np.float64)
    return None
