"""Lines of JSON as programs write them, as rows of one response each; every other line is a row as it is.

ms-swift writes a batch per line, NeMo-RL a sample with its messages, prime-rl an episode with its traces.
"""

from __future__ import annotations

import json
from typing import Any

Row = dict[str, Any]

LIMITS = {"max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens", "context_length"}
"""Conditions that cut a trace of prime-rl short."""


def rows_of(value: Row) -> list[Row]:
    """The responses of one line."""
    if is_batch(value):
        size = len(value["prompt"])  # a column of another length belongs to no response
        columns = {name: cells for name, cells in value.items() if len(cells) == size}
        return [{name: cells[k] for name, cells in columns.items()} for k in range(size)]
    if _is_episode(value):
        return _traces(value)
    return [_sample(value)] if _is_sample(value) else [value]


def is_batch(value: Row) -> bool:
    """Whether a line holds a whole batch: every value a list, and as many prompts as completions, all of them texts."""
    if not {"prompt", "completion"} <= value.keys() or not all(isinstance(cell, list) for cell in value.values()):
        return False
    prompt, completion = value["prompt"], value["completion"]
    return len(prompt) == len(completion) and all(isinstance(text, str) for text in (*prompt, *completion))


def _is_sample(value: Row) -> bool:
    """Whether a line is a sample of NeMo-RL: lists of one entry each, with the messages under `content`, numbered by `idx`."""
    if not {"content", "rewards", "idx"} <= value.keys():
        return False
    lists = (value["content"], value["rewards"])
    return all(isinstance(cell, list) and len(cell) == 1 for cell in lists) and isinstance(value["content"][0], list)


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


def _is_episode(value: Row) -> bool:
    """Whether a line is an episode with its traces, or, as written before there were episodes, one trace."""
    if isinstance(value.get("traces"), list):
        return isinstance(value.get("task"), dict) and "env" in value
    return isinstance(value.get("nodes"), list) and isinstance(value.get("rewards"), dict) and "env_name" in value


def _traces(value: Row) -> list[Row]:
    """The traces of an episode as rows; those that train nothing, or that failed, say so under `left_out`."""
    if "traces" not in value:
        return [_trace(value, value.get("group_id"), value.get("task"))]
    group = value.get("group")
    name = group.get("id") if isinstance(group, dict) else None
    return [_trace(trace, name, value["task"]) for trace in _dicts(value["traces"])]


def _trace(trace: Row, group: object, task: object) -> Row:
    nodes, calls = _dicts(trace.get("nodes")), _dicts(trace.get("calls"))
    prompt, answer = _texts(nodes)
    advantages = (node.get("advantages") for node in nodes)
    last = next((call for call in reversed(calls) if not call.get("error")), {})
    stopped = trace.get("stop_condition")
    row: Row = {
        "trace_group": group if isinstance(group, str) else None,
        "prompt": prompt or _asked(task),
        "completion": answer,
        "reward": _reward(trace),
        # of the first token that has one: GRPO gives all of them the same
        "advantage": next((cells[0] for cells in advantages if isinstance(cells, list) and cells), None),
        "completion_tokens": _tokens(nodes, calls),
        "truncated": (isinstance(stopped, str) and stopped in LIMITS) or last.get("finish_reason") == "length",
        "left_out": _left_out(trace),
    }
    return row | {f"rewards/{name}": part.get("score") for name, part in _rewards(trace)}


def _dicts(cells: object) -> list[Row]:
    """The dicts of a list; empty if it is anything else."""
    return [cell for cell in cells if isinstance(cell, dict)] if isinstance(cells, list) else []


def _rewards(trace: Row) -> list[tuple[str, Row]]:
    """The reward functions that gave a score."""
    parts = trace.get("rewards")
    return [(name, part) for name, part in parts.items() if isinstance(part, dict)] if isinstance(parts, dict) else []


def _reward(trace: Row) -> float | None:
    """The weighted sum of the scores, which is what prime-rl trains on; None where nothing was scored."""
    parts = _rewards(trace)
    try:
        return sum(float(part["score"]) * float(part.get("weight", 1.0)) for _, part in parts) if parts else None
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _texts(nodes: list[Row]) -> tuple[str, str | None]:
    """The messages before the first that the model wrote, and those from it on."""
    before, after = [], []
    for node in nodes:
        (after if node.get("sampled") or after else before).append(_said(node.get("message")))
    answer = after[0].partition("] ")[2] if len(after) == 1 else "\n".join(after)
    return "\n".join(before), answer if after else None


def _said(message: object) -> str:
    """A message as "[role] what it says"; tools that were called stand below."""
    if not isinstance(message, dict):
        return ""
    said = [_plain(message.get("reasoning_content")), _plain(message.get("content"))]
    said += [f"{call.get('name')}({call.get('arguments')})" for call in _dicts(message.get("tool_calls"))]
    return f"[{message.get('role', '?')}] " + "\n".join(filter(None, said))


def _plain(content: object) -> str:
    """Text, or the texts among parts; pictures are left out."""
    if isinstance(content, list):
        return "\n".join(part["text"] for part in _dicts(content) if isinstance(part.get("text"), str))
    return content if isinstance(content, str) else ""


def _asked(task: object) -> str:
    """The prompt of a task, for a trace without messages."""
    data = task.get("data") if isinstance(task, dict) else None
    prompt = data.get("prompt") if isinstance(data, dict) else None
    return "\n".join(map(_said, prompt)) if isinstance(prompt, list) else _plain(prompt)


def _tokens(nodes: list[Row], calls: list[Row]) -> int | None:
    """Tokens that the model wrote: by their marks, else as the server counted them."""
    masks = [node["mask"] for node in nodes if isinstance(node.get("mask"), list)]
    if counted := sum(sum(map(bool, mask)) for mask in masks):
        return counted
    used = [call["usage"].get("completion_tokens") for call in calls if isinstance(call.get("usage"), dict)]
    found = [number for number in used if isinstance(number, int)]
    return sum(found) if found else None


def _left_out(trace: Row) -> str | None:
    """Why a trace is in no group: prime-rl compares only traces that train and that went well."""
    agent = trace.get("agent")
    if isinstance(agent, dict) and agent.get("trainable") is False:
        return "frozen"
    return "failed" if trace.get("ok") is False else None
