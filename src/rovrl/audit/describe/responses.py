"""Every response beside its reward: length, whether it was cut, verdict, copies within the group, and the reward functions.

Columns are found by their usual names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import Array, numbers_of
from rovrl.audit.read.cells import ArrowBatch, Batch, DictBatch
from rovrl.audit.read.rollouts import Rollouts
from rovrl.audit.read.rows import Columns, Notes, Reader
from rovrl.audit.read.tables import batches, pa, pc
from rovrl.output.progress import Progress, silent

AT_LIMIT = 0.002
"""The longest length of a run counts as its limit if more than this share, and three responses or more, have exactly it."""
NEAR_LIMIT, PILE = 0.8, 3.0
"""And if it has this many times the responses of any length from 0.8 times it on: lengths of 3, 4 and 5 are no pile."""
DIVERSITY_TEXTS = 40_000
"""Texts whose word pairs are counted, spread over the steps: the rest of the measures read everything."""
COMPLETIONS = ("completion", "output", "response", *Columns.USUAL["completion"])
WORDS = 200
"""Words of each response that are looked at: the measure falls with the number of words, so it must be the same for all."""
LETTERS = 12 * WORDS
_WORD = re.compile(r"\w+|[^\w\s]")
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


@dataclass
class Responses:
    """One entry per response, in the order of `Rollouts`; NaN where a dump does not say. None: the dump has no such thing."""

    unit: str = "tokens"
    """What `length` counts: tokens where the dump counts or lists them, else characters."""
    length: Array | None = None
    truncated: Array | None = None
    truncated_by: str = ""
    """How truncation is known, in words."""
    right: Array | None = None
    verdict: str = ""
    """The column of the verdict."""
    copies: Array | None = None
    """1 where another response of the group has the same text."""
    distinct: Array | None = None
    """Per group: distinct pairs of neighbouring words over all pairs (of the first words of each response)."""
    parts: dict[str, Array] = field(default_factory=dict)
    """The reward functions' own values, by column."""


def read_responses(reader: Reader, rollouts: Rollouts, progress: Progress = silent) -> Responses:
    """What the files of a run hold beside the rewards, read in one more pass."""
    gathered = _Gathered(reader, rollouts)
    for number, file in enumerate(rollouts.files):
        progress(number, len(rollouts.files), "responses")
        mine = np.flatnonzero(rollouts.file == number)
        if not len(mine):
            continue
        place = np.full(int(rollouts.row[mine].max()) + 1, -1, dtype=np.int64)
        place[rollouts.row[mine]] = mine
        for batch in batches(file, None, Notes()):
            gathered.add(batch, place)
    progress(len(rollouts.files), len(rollouts.files), "responses")
    return gathered.finish()


class _Gathered:
    """Columns by response, filled batch by batch."""

    def __init__(self, reader: Reader, rollouts: Rollouts) -> None:
        self.reader, self.rollouts = reader, rollouts
        self.group = np.repeat(np.arange(rollouts.groups), rollouts.size)
        self.found: dict[str, Array] = {}
        self.texts: dict[int, list[str]] = {}
        self.verdict = ""
        self.hashes = np.zeros(len(rollouts.reward), dtype=np.int64)
        self.chosen = _spread_over_steps(rollouts)

    def add(self, batch: Batch, place: NDArray[np.int64]) -> None:
        """Puts the columns of some rows in their places."""
        number = np.asarray(batch.rows)
        at = np.where(number < len(place), place[np.minimum(number, len(place) - 1)], -1)
        keep = at >= 0
        if not keep.any():
            return
        rows = at[keep]
        for name, values in self._columns(batch).items():
            self._column(name)[rows] = values[keep]
        completion = self._completion(batch.names)
        if completion is not None:
            texts = batch.texts(completion)
            self._column("characters")[rows] = numbers_of(pc.utf8_length(texts))[keep]
            self._remember(texts, keep, rows)

    def _completion(self, names: list[str]) -> str | None:
        given = self.reader.columns.completion
        if given is not None and given in names:
            return given
        return named(names, COMPLETIONS)

    def _columns(self, batch: Batch) -> dict[str, Array]:
        found = {"tokens": lengths(batch), "truncated": cut_short(batch)}
        verdict = verdict_column(batch.names)
        if verdict is not None:
            self.verdict = verdict
            found["right"] = as_flags(batch, verdict)
        for name in reward_parts(batch.names, every_number=self.reader.logs_parts):
            values = batch.numbers(name)
            if np.isfinite(values).any() or f"part {name}" in self.found:
                found[f"part {name}"] = values
        return {name: values for name, values in found.items() if values is not None}

    def _column(self, name: str) -> Array:
        if name not in self.found:
            self.found[name] = np.full(len(self.rollouts.reward), np.nan)
        return self.found[name]

    def _remember(self, texts: object, keep: NDArray[np.bool_], rows: NDArray[np.int64]) -> None:
        words = texts.to_pylist()  # pyright: ignore[reportAttributeAccessIssue]
        for k, row in zip(np.flatnonzero(keep).tolist(), rows.tolist(), strict=True):
            self.hashes[row] = hash(words[k]) if words[k] is not None else 0
            group = int(self.group[row])
            if self.chosen[group] and words[k] is not None:
                self.texts.setdefault(group, []).append(words[k][:LETTERS])

    def finish(self) -> Responses:
        found = self.found
        unit = "tokens" if np.isfinite(found.get("tokens", np.empty(0))).any() else "characters"
        length = found.get(unit)
        out = Responses(unit=unit, length=length, parts=_parts(found))
        if "truncated" in found:
            out = replace(out, truncated=found["truncated"], truncated_by="as the dump says")
        elif unit == "tokens" and length is not None:
            out = replace(out, **_at_limit(length))
        right = found.get("right")
        if right is not None and np.isin(right[np.isfinite(right)], (0.0, 1.0)).all():
            out = replace(out, right=right, verdict=self.verdict)
        if "characters" in found:
            out = replace(out, copies=copies(self.group, self.hashes, found["characters"]))
            distinct = np.full(self.rollouts.groups, np.nan)
            for group, texts in self.texts.items():
                distinct[group] = distinct_pairs(texts)
            out = replace(out, distinct=distinct)
        return out


def copies(group: NDArray[np.int64], hashes: NDArray[np.int64], known: Array) -> Array:
    """1 for a response whose text another one of its group has too, 0 for others, NaN without a text."""
    order = np.lexsort((hashes, group))
    same = (group[order][1:] == group[order][:-1]) & (hashes[order][1:] == hashes[order][:-1])
    twin = np.zeros(len(group), dtype=bool)
    twin[order[1:]] |= same
    twin[order[:-1]] |= same
    return np.where(np.isfinite(known), twin.astype(np.float64), np.nan)


def _parts(found: dict[str, Array]) -> dict[str, Array]:
    """The reward functions in the order of the dump; with one alone there is nothing to tell apart."""
    parts = {name.removeprefix("part "): values for name, values in found.items() if name.startswith("part ")}
    return parts if len(parts) > 1 else {}


def _at_limit(length: Array) -> dict[str, object]:
    """Truncation inferred from a pile at the longest length of the run; nothing where there is no pile."""
    known = length[np.isfinite(length)]
    longest = known.max() if len(known) else 0.0
    there = int((known == longest).sum())
    if there < max(3, AT_LIMIT * len(known)) or (known == longest).all():
        return {}
    below = np.unique(known[(known < longest) & (known >= NEAR_LIMIT * longest)], return_counts=True)[1]
    if there < PILE * below.max(initial=0):
        return {}
    by = f"inferred from the {there:,} responses of exactly {longest:,.0f} tokens, the longest of the run"
    return {
        "truncated": np.where(np.isfinite(length), (length == longest).astype(np.float64), np.nan),
        "truncated_by": by,
    }


def _spread_over_steps(rollouts: Rollouts) -> NDArray[np.bool_]:
    """Which groups' texts are kept for the count of word pairs: as many of every step."""
    _, rank, count = np.unique(rollouts.step, return_inverse=True, return_counts=True)
    usual = max(1.0, float(np.median(rollouts.size)))
    per_step = max(1, int(DIVERSITY_TEXTS / usual / max(len(count), 1)))
    order = np.argsort(rank, kind="stable")
    place = np.empty(len(rank), dtype=np.int64)
    place[order] = np.arange(len(rank)) - np.repeat(np.cumsum(count) - count, count)
    return place < per_step


def named(names: Sequence[str], wanted: Sequence[str]) -> str | None:
    """The first of `wanted` that is among `names`, in any case of letters."""
    lower = {name.lower(): name for name in reversed(names)}
    return next((lower[name] for name in wanted if name in lower), None)


def reward_parts(names: Sequence[str], every_number: bool) -> list[str]:
    """The columns of single reward functions: by their names, or every column that is nothing else (TRL, verl)."""
    rest = [name for name in names if name.lower() not in NOT_REWARDS]
    return rest if every_number else [name for name in rest if _PART.match(name.lower())]


def verdict_column(names: Sequence[str]) -> str | None:
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


def distinct_pairs(texts: Sequence[str]) -> float:
    """Distinct over all pairs of neighbouring words, in the first WORDS words of each text ("distinct-2"); a sign is a word.

    1 if no pair comes twice, near 1/n if all n texts are equal; NaN where no text has two words.
    """
    pairs, total = set(), 0
    for text in texts:
        words = _WORD.findall(text[:LETTERS])[:WORDS]
        total += max(len(words) - 1, 0)
        pairs.update(pairwise(words))
    return len(pairs) / total if total else float(np.nan)
