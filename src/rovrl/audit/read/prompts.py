"""Do the responses of a group answer the same prompt?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrow import flags_of, index_array, integers_of
from rovrl.audit.read.rows import Chunk, Notes, Reader
from rovrl.audit.read.tables import pa, pc

PROMPT_ROWS = 131_072
"""How many rows are looked at: wrong group ids show early."""

Seen = tuple[NDArray[np.int64], Any, NDArray[np.int64]]
"""Some rows: step, group as a pyarrow string array, and a hash of the prompt: the prompts themselves may be long."""


def mixed_prompts(reader: Reader, files: list[Path]) -> tuple[int, int]:
    """(groups with different prompts, groups looked at) among the first rows; (0, 0) where prompts define the groups."""
    if reader.by_runs or reader.repeats:
        return 0, 0
    found: list[Seen] = []
    left = PROMPT_ROWS
    for file in files:
        if not reader.has_prompts(file):
            return 0, 0
        for chunk in reader.chunks(file, frozenset({"prompt"}), Notes()):
            if chunk.prompt is None or chunk.group is None:
                return 0, 0
            found.append(_seen(chunk))
            left -= len(chunk)
            if left <= 0:
                return _counted(found)
    return _counted(found)


def _seen(chunk: Chunk) -> Seen:
    """The rows of a chunk where the prompt or the group differs from the row before."""
    group = chunk.group.cast(pa.large_string())
    rows = np.arange(min(len(chunk), 1))
    if len(chunk) > 1:
        other = pc.or_kleene(
            pc.not_equal(group.slice(1), group.slice(0, len(group) - 1)),
            pc.not_equal(chunk.prompt.slice(1), chunk.prompt.slice(0, len(group) - 1)),
        )
        rows = np.append(0, np.flatnonzero(flags_of(pc.fill_null(other, True))) + 1)
    some = index_array(rows)
    return chunk.step[rows], group.take(some), _hashes(chunk.prompt.take(some))


def _counted(found: list[Seen]) -> tuple[int, int]:
    """(groups with different prompts, groups) among those rows."""
    if not found:
        return 0, 0
    step = np.concatenate([step for step, _, _ in found])
    group = _codes(pa.concat_arrays([group for _, group, _ in found]))
    prompt = np.concatenate([prompt for _, _, prompt in found])
    order = np.lexsort((prompt, group, step))
    step, group, prompt = step[order], group[order], prompt[order]
    first = np.flatnonzero(np.append(True, (step[1:] != step[:-1]) | (group[1:] != group[:-1]))[: len(order)])
    last = np.append(first[1:], len(order)) - 1
    return int((prompt[first] != prompt[last]).sum()), len(first)


def _codes(texts: Any) -> NDArray[np.int64]:
    """A number for each text, equal for equal texts; nulls are equal too."""
    return integers_of(texts.dictionary_encode().indices.fill_null(-1))


def _hashes(texts: Any) -> NDArray[np.int64]:
    """A hash of each text, each different one hashed once; 0 for a null."""
    coded = texts if pa.types.is_dictionary(texts.type) else texts.dictionary_encode()
    used, place = np.unique(integers_of(coded.indices.fill_null(-1)), return_inverse=True)
    different = coded.dictionary.take(index_array(used[used >= 0])).to_pylist()
    return np.array([*[0] * bool((used < 0).any()), *map(hash, different)], dtype=np.int64)[place]
