"""The texts and token log-ratios of the groups that are shown, read again from the files, within budgets."""

from __future__ import annotations

import importlib
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rovrl.audit.measure.ratios import weights
from rovrl.audit.read.rows import Chunk, Notes
from rovrl.audit.read.table import natural
from rovrl.audit.read.tables import check_regular
from rovrl.config import CLIP_HIGH, CLIP_LOW, RatioChannel

if TYPE_CHECKING:
    from rovrl.audit.result import AuditResult

TEXT_BUDGET = 6_000_000
"""Characters of prompts and completions in one document; the worst groups come first."""
HEAD, TAIL = 4_000, 2_000
"""Characters of one text: how it begins and how it ends; the middle is cut, and the cut is said."""
TOKEN_BUDGET = 400_000
"""Token log-ratios in one document."""
Cut = Callable[[str], list[str]]
PLACES = ("tokenizer.json", "checkpoint-*/tokenizer.json", "checkpoints/checkpoint-*/tokenizer.json")
END = "<end>"
LONGEST = 32
"""Characters of one token that are shown."""
MOST_BYTES = 2**28
"""Of a tokenizer; those of half a million tokens have less than a tenth of it."""


def details(result: AuditResult, chosen: np.ndarray) -> dict[int, dict[str, Any]]:
    """Prompt, completions and token log-ratios of the worst groups, read again from the files, within the budgets."""
    rollouts = result.rollouts
    by_file: dict[int, dict[int, tuple[int, int]]] = defaultdict(dict)
    for group in chosen.tolist():
        span = rollouts.rows_of(group)
        for place, (file, row) in enumerate(
            zip(rollouts.file[span].tolist(), rollouts.row[span].tolist(), strict=True)
        ):
            by_file[file][row] = (group, place)
    found: dict[int, dict[str, Any]] = {}
    if not rollouts.files:
        return found
    want = frozenset({"reward", "text", "advantage"} | ({"tokens"} if result.ratios is not None else set()))
    for file, rows in sorted(by_file.items()):
        _read_file(result, file, rows, want, found)
    _keep_within_budget(found, chosen.tolist())
    _finish_tokens(found, result.ratio_channel)
    _add_token_texts(found, TokenTexts.beside(result.path))
    return found


def _read_file(
    result: AuditResult,
    file: int,
    rows: dict[int, tuple[int, int]],
    want: frozenset[str],
    found: dict[int, dict[str, Any]],
) -> None:
    several = result.reader.row_per_update and "tokens" in want  # the later rows are known by what they say
    names: dict[object, tuple[int, int]] = {}
    for chunk in result.reader.chunks(result.rollouts.files[file], want, Notes()):
        for k, row in enumerate(chunk.row.tolist()):
            at = rows.get(row)
            if at is not None:
                _add_texts(result, chunk, k, at, found)
                if several:
                    names[_name(chunk, k)] = at
            _add_tokens(chunk, k, at or (names.get(_name(chunk, k)) if several else None), found)


def _add_texts(
    result: AuditResult, chunk: Chunk, k: int, at: tuple[int, int], found: dict[int, dict[str, Any]]
) -> None:
    group, response = at
    empty = {"prompt": None, "completions": [None] * int(result.groups.size[group])}
    entry = found.setdefault(group, empty)
    if chunk.prompt is not None and entry["prompt"] is None:
        entry["prompt"] = cut(chunk.prompt[k].as_py())
    if chunk.completion is not None:
        entry["completions"][response] = cut(chunk.completion[k].as_py())


def _name(chunk: Chunk, k: int) -> object:
    return (int(chunk.step[k]), chunk.group[k].as_py(), chunk.completion[k].as_py(), float(chunk.reward[k]))


def _add_tokens(chunk: Chunk, k: int, at: tuple[int, int] | None, found: dict[int, dict[str, Any]]) -> None:
    if at is None or chunk.log_ratios is None or at[0] not in found:
        return
    row = chunk.log_ratios[k]
    if row is None:
        return
    row = row[np.isfinite(row)]
    clip = chunk.clip[k].tolist() if chunk.clip is not None else [CLIP_LOW, CLIP_HIGH]
    advantage = float(chunk.advantage[k]) if chunk.advantage is not None else None
    text = chunk.completion[k].as_py() if chunk.completion is not None else None
    found[at[0]].setdefault("tokens", []).append(
        {"response": at[1], "values": row, "clip": clip, "advantage": advantage, "text": text}
    )


def _keep_within_budget(found: dict[int, dict[str, Any]], order: list[int]) -> None:
    """Texts and tokens of the worst groups first; beyond the budget a group has its numbers only."""
    text, tokens = 0, 0
    for group in order:
        entry = found.get(group)
        if entry is None:
            continue
        text += len(entry["prompt"] or "") + sum(len(c or "") for c in entry["completions"])
        tokens += sum(len(row["values"]) for row in entry.get("tokens", []))
        if text > TEXT_BUDGET:
            del entry["prompt"], entry["completions"]
        if tokens > TOKEN_BUDGET:
            entry.pop("tokens", None)


def _finish_tokens(found: dict[int, dict[str, Any]], channel: RatioChannel) -> None:
    """Adds mean, SoftRoVR and unit to every row of token log-ratios, computed from the digits that are written."""
    rows = [row for entry in found.values() for row in entry.get("tokens", [])]
    values = [np.array([float(f"{v:.9g}") for v in row["values"].tolist()]) for row in rows]
    mean, soft = weights(values, channel)
    for row, tokens, m, s in zip(rows, values, mean.tolist(), soft.tolist(), strict=True):
        row.update(values=tokens, mean=m, soft=s, unit=_unit(tokens, channel))


def _unit(tokens: np.ndarray, channel: RatioChannel) -> float:
    if channel.units != "robust" or not len(tokens):
        return 1.0
    import torch

    from rovrl.weight import token_scale

    x = torch.from_numpy(tokens)[None]
    return float(token_scale(x, torch.ones_like(x, dtype=torch.bool), channel))


def _add_token_texts(found: dict[int, dict[str, Any]], texts: TokenTexts) -> None:
    """The token texts of every row where they can be found; the whole text is not needed after that."""
    for entry in found.values():
        for row in entry.get("tokens", []):
            told = texts(row.pop("text"), len(row["values"]))
            if told is not None:
                row["texts"] = told


def cut(text: str | None, head: int = HEAD, tail: int = TAIL) -> str | None:
    """The beginning and the end of a text that is too long, with the number of characters between them."""
    if text is None or len(text) <= head + tail:
        return text
    middle = f" \u2026 [{len(text) - head - tail:,} characters were cut here] \u2026 "
    return text[:head] + middle + text[len(text) - tail :]


class TokenTexts:
    """Called with a text and a number of tokens: the tokens' texts, or None where they cannot be known.

    A text that is cut again need not give the tokens that were sampled; it is believed only if it gives exactly as many, or one
    fewer: the end of the text is a token too.
    """

    def __init__(self, ways: list[Cut]) -> None:
        self.ways = ways

    @classmethod
    def beside(cls, path: Path) -> TokenTexts:
        """With the newest tokenizer in the run's directory, if the package `tokenizers` is there to read it."""
        folder = path if path.is_dir() else path.parent
        homes = (folder, folder.parent) if folder.name in ("records", "completions") else (folder,)
        found = [file for home in homes for place in PLACES for file in sorted(home.glob(place), key=natural)]
        return cls([*([_with(found[-1])] if found else []), list])

    def __call__(self, text: str | None, count: int) -> list[str] | None:
        """The `count` tokens of `text`."""
        if text is None or count == 0:
            return None
        for way in self.ways:
            pieces = way(text)
            if len(pieces) in (count, count - 1):
                return [piece[:LONGEST] for piece in pieces] + [END] * (count - len(pieces))
        return None


def _with(file: Path) -> Cut:
    try:
        check_regular(file)
        if file.stat().st_size > MOST_BYTES:
            return lambda text: []
        tokenizer = importlib.import_module("tokenizers").Tokenizer.from_file(str(file))
    except Exception:
        return lambda text: []
    return lambda text: [text[a:z] for a, z in tokenizer.encode(text, add_special_tokens=False).offsets]
