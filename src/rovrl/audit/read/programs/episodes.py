"""Episodes as prime-rl writes them, as rows of one trace each: what a trace was asked, what it answered, what it got for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Row = dict[str, Any]

LIMITS = {"max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens", "context_length"}
"""Conditions that cut a trace short."""


def is_episode(value: Row) -> bool:
    """Whether a line is an episode with its traces, or, as written before there were episodes, one trace."""
    if isinstance(value.get("traces"), list):
        return isinstance(value.get("task"), dict) and "env" in value
    return _is_trace(value) and "env_name" in value


def traces_of(value: Row) -> list[Row]:
    """The traces of an episode as rows; those that train nothing, or that failed, say so under `left_out`."""
    if "traces" not in value:
        return [_row(value, value.get("group_id"), value.get("task"))]
    group = value.get("group")
    name = group.get("id") if isinstance(group, dict) else None
    return [_row(trace, name, value["task"]) for trace in value["traces"] if isinstance(trace, dict)]


def _row(trace: Row, group: object, task: object) -> Row:
    prompt, answer = _texts(trace)
    row: Row = {
        "trace_group": group if isinstance(group, str) else None,
        "prompt": prompt or _asked(task),
        "completion": answer,
        "reward": _reward(trace),
        "advantage": _advantage(trace),
        "completion_tokens": _tokens(trace),
        "truncated": _is_cut(trace),
        "left_out": _left_out(trace),
    }
    return row | {f"rewards/{name}": part.get("score") for name, part in _rewards(trace)}


def _is_trace(value: Row) -> bool:
    return isinstance(value.get("nodes"), list) and isinstance(value.get("rewards"), dict)


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


def _nodes(trace: Row) -> Iterator[Row]:
    nodes = trace.get("nodes")
    yield from (node for node in nodes if isinstance(node, dict)) if isinstance(nodes, list) else ()


def _texts(trace: Row) -> tuple[str, str | None]:
    """The messages before the first that the model wrote, and those from it on."""
    before, after = [], []
    for node in _nodes(trace):
        (after if node.get("sampled") or after else before).append(_said(node.get("message")))
    answer = after[0].partition("] ")[2] if len(after) == 1 else "\n".join(after)
    return "\n".join(before), answer if after else None


def _said(message: object) -> str:
    """A message as "[role] what it says"; tools that were called stand below."""
    if not isinstance(message, dict):
        return ""
    said = [_plain(message.get("reasoning_content")), _plain(message.get("content"))]
    calls = message.get("tool_calls")
    calls = [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    said += [f"{call.get('name')}({call.get('arguments')})" for call in calls]
    return f"[{message.get('role', '?')}] " + "\n".join(filter(None, said))


def _plain(content: object) -> str:
    """Text, or the texts among parts; pictures are left out."""
    if isinstance(content, list):
        return "\n".join(
            part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)
        )
    return content if isinstance(content, str) else ""


def _asked(task: object) -> str:
    """The prompt of a task, for a trace without messages."""
    data = task.get("data") if isinstance(task, dict) else None
    prompt = data.get("prompt") if isinstance(data, dict) else None
    return "\n".join(map(_said, prompt)) if isinstance(prompt, list) else _plain(prompt)


def _advantage(trace: Row) -> object:
    """The advantage of the first token that has one: GRPO gives all of them the same."""
    lists = (node.get("advantages") for node in _nodes(trace))
    return next((cells[0] for cells in lists if isinstance(cells, list) and cells), None)


def _tokens(trace: Row) -> int | None:
    """Tokens that the model wrote: by their marks, else as the server counted them."""
    masks = [node["mask"] for node in _nodes(trace) if isinstance(node.get("mask"), list)]
    counted = sum(sum(map(bool, mask)) for mask in masks)
    if counted:
        return counted
    used = [call["usage"].get("completion_tokens") for call in _calls(trace) if isinstance(call.get("usage"), dict)]
    found = [number for number in used if isinstance(number, int)]
    return sum(found) if found else None


def _calls(trace: Row) -> list[Row]:
    calls = trace.get("calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def _is_cut(trace: Row) -> bool:
    last = next((call for call in reversed(_calls(trace)) if not call.get("error")), {})
    condition = trace.get("stop_condition")
    return (isinstance(condition, str) and condition in LIMITS) or last.get("finish_reason") == "length"


def _left_out(trace: Row) -> str | None:
    """Why a trace is in no group: prime-rl compares only traces that train and that went well."""
    agent = trace.get("agent")
    if isinstance(agent, dict) and agent.get("trainable") is False:
        return "frozen"
    return "failed" if trace.get("ok") is False else None
