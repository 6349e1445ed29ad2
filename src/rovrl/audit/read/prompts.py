"""Do the responses of a group answer the same prompt?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rovrl.audit.arrow import flags_of
from rovrl.audit.read.rows import Notes, Reader
from rovrl.audit.read.tables import pc

PROMPT_ROWS = 131_072
"""How many rows are looked at: wrong group ids show early."""


def mixed_prompts(reader: Reader, files: list[Path]) -> tuple[int, int]:
    """(groups with different prompts, groups looked at) among the first rows; (0, 0) where prompts define the groups."""
    if reader.by_runs or reader.repeats:
        return 0, 0
    mixed: dict[tuple[int, object], bool] = {}
    seen: dict[tuple[int, object], int] = {}
    left = PROMPT_ROWS
    for file in files:
        for chunk in reader.chunks(file, frozenset({"reward", "prompt"}), Notes()):
            if chunk.prompt is None or chunk.group is None:
                return 0, 0
            _compare_prompts(chunk, seen, mixed)
            left -= len(chunk)
            if left <= 0:
                return sum(mixed.values()), len(mixed)
    return sum(mixed.values()), len(mixed)


def _compare_prompts(chunk: Any, seen: dict, mixed: dict) -> None:
    """Only rows where the prompt or the group differs from the row before are looked at one by one."""
    if not len(chunk):
        return
    changes = [0]
    if len(chunk) > 1:
        group = chunk.group.cast("large_string")
        other = pc.or_kleene(
            pc.not_equal(group.slice(1), group.slice(0, len(group) - 1)),
            pc.not_equal(chunk.prompt.slice(1), chunk.prompt.slice(0, len(group) - 1)),
        )
        changes += (np.flatnonzero(flags_of(pc.fill_null(other, True))) + 1).tolist()
    for row in changes:
        name = (int(chunk.step[row]), chunk.group[row].as_py())
        prompt = hash(chunk.prompt[row].as_py())  # the prompts themselves may be long
        if name in seen:
            mixed[name] = mixed[name] or prompt != seen[name]
        else:
            seen[name], mixed[name] = prompt, False
