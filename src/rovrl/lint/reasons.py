"""Why a reward function raises, as far as a few more calls can tell."""

from __future__ import annotations

from rovrl.lint.calls import Function, call, takes_one
from rovrl.lint.completions import Completions

LOOKED_AT = 64
"""Completions that are tried one by one."""


def where(error: str, function: Function, rows: Completions, chat: bool) -> str:
    """How many single completions raise, and if all do, what would help; to be put after the error."""
    looked = min(len(rows), LOOKED_AT)
    bad = [k for k in range(looked) if call(function, rows.take([k]), chat).error]
    if len(bad) < looked:
        first = f", the first is number {bad[0] + 1}" if bad else ""
        return f"; alone, {len(bad)} of the first {looked} completions raise{first}"
    return "; " + _why(error, function, rows, chat)


def _why(error: str, function: Function, rows: Completions, chat: bool) -> str:
    if not takes_one(function) and not call(function, rows.take([0]), not chat).error:
        return "it takes plain texts: leave out --chat" if chat else "it takes lists of messages: try --chat"
    if "unexpected keyword argument" in error:
        return "trainers give every column of the data by its name, and more: let it take **kwargs"
    if ("missing" in error and "required" in error) or error.startswith("KeyError"):
        return f"the dump has the columns {', '.join(sorted(rows.columns)) or 'prompt and completion alone'}"
    return "every completion alone raises too"
