"""Lines of JSON as other programs write them, as rows of one response each; every other line is a row as it is."""

from __future__ import annotations

import json
from typing import Any

from rovrl.audit.read.programs.episodes import is_episode, traces_of

Row = dict[str, Any]


def rows_of(value: Row) -> list[Row]:
    """The responses of one line: of ms-swift's batches, prime-rl's episodes, NeMo-RL's samples; else the line itself."""
    if is_batch(value):
        return _unrolled(value)
    if is_episode(value):
        return traces_of(value)
    return [_sample(value)] if is_sample(value) else [value]


def is_batch(value: Row) -> bool:
    """Whether a line holds a whole batch: every value a list, and as many prompts as completions, all of them texts."""
    if not {"prompt", "completion"} <= value.keys() or not all(isinstance(cell, list) for cell in value.values()):
        return False
    prompt, completion = value["prompt"], value["completion"]
    return len(prompt) == len(completion) and all(isinstance(text, str) for text in (*prompt, *completion))


def is_sample(value: Row) -> bool:
    """Whether a line is a sample of NeMo-RL: lists of one entry each, with the messages under `content`, numbered by `idx`."""
    if not {"content", "rewards", "idx"} <= value.keys():
        return False
    content, rewards = value["content"], value["rewards"]
    return all(isinstance(cell, list) and len(cell) == 1 for cell in (content, rewards)) and isinstance(
        content[0], list
    )


def _unrolled(value: Row) -> list[Row]:
    """One row per response; a column of another length belongs to no response."""
    size = len(value["prompt"])
    columns = {name: cells for name, cells in value.items() if len(cells) == size}
    return [{name: cells[k] for name, cells in columns.items()} for k in range(size)]


def _sample(value: Row) -> Row:
    """Messages as prompt and completion; the prompt's tokens, which the responses of a group share, as a key."""
    messages = ["" if text is None else str(text) for text in value["content"][0]]
    tokens, mask = _only(value.get("token_ids")), _only(value.get("token_loss_mask"))
    row: Row = {
        "prompt": "\n".join(messages[:-1]),
        "completion": messages[-1] if messages else None,
        "reward": value["rewards"][0],
        "prompt_key": "\n".join(messages[:-1]),
    }
    if tokens and len(tokens) == len(mask) and any(mask):
        first = next(k for k, trained in enumerate(mask) if trained)
        row |= {"prompt_key": json.dumps(tokens[:first]), "completion_tokens": sum(map(bool, mask))}
    return row


def _only(cell: object) -> list[Any]:
    """The list in a list of one; empty if it is anything else."""
    return cell[0] if isinstance(cell, list) and len(cell) == 1 and isinstance(cell[0], list) else []
