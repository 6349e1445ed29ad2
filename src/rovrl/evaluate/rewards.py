"""Reward functions of your own as metrics, called as TRL or verl would call them; or a task's verifier by its name."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import math
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rovrl.errors import RovrlError, place_of
from rovrl.evaluate.measure import MEASURES, Metrics
from rovrl.tasks.catalog import GOLD, Example


class Reward(NamedTuple):
    """A name, a mark that changes with the function's file, and the metrics of a batch of responses."""

    name: str
    mark: str
    measure: Callable[[Sequence[Example], Sequence[str]], list[Metrics]]


def load_rewards(names: Sequence[str]) -> list[Reward]:
    """The rewards that `names` name: a task's verifier ("math"), module:function or file.py:function."""
    found = [_verifier(name) if name in MEASURES else _function(name) for name in names]
    twice = [reward.name for k, reward in enumerate(found) if reward.name in [other.name for other in found[:k]]]
    if twice:
        raise RovrlError(f"two rewards are called {twice[0]!r}, and results are kept by name: rename one of them")
    return found


def _verifier(task: str) -> Reward:
    column = GOLD[task]

    def measured(examples: Sequence[Example], completions: Sequence[str]) -> list[Metrics]:
        for example in examples:
            if example.get(column) in (None, ""):
                raise RovrlError(f"the row {example['id']!r} has no {column!r}, with which --reward {task} compares")
        return MEASURES[task](examples, completions)

    return Reward(task, "", measured)


def _function(name: str) -> Reward:
    from rovrl.integrations.rewards import load

    function = load(name)
    label = name.rpartition(":")[2]

    def measured(examples: Sequence[Example], completions: Sequence[str]) -> list[Metrics]:
        return [{label: value} for value in scores(label, function, examples, completions)]

    return Reward(label, _mark(function), measured)


def scores(
    name: str, function: Callable[..., Any], examples: Sequence[Example], completions: Sequence[str]
) -> list[float]:
    """One finite number per response; a RovrlError that says where the function failed, or for which row it has none."""
    from rovrl.integrations.rewards import is_number, takes_one

    try:
        given: Any = (_by_row if takes_one(function) else _together)(function, examples, completions)
        found = list(given.tolist() if hasattr(given, "tolist") else given)
    except Exception as error:
        raise RovrlError(
            f"the reward function {name!r} failed{place_of(error)}: {type(error).__name__}: {error}. "
            "What is finished is kept; repeat the command to go on"
        ) from error
    if len(found) != len(examples):
        raise RovrlError(f"the reward function {name!r} returned {len(found)} rewards for {len(examples)} responses")
    for example, value in zip(examples, found, strict=True):
        if not is_number(value) or not math.isfinite(float(value)):
            raise RovrlError(
                f"the reward function {name!r} gives {value!r} for the row {example['id']!r}: an evaluation needs a number "
                "for every response. What is finished is kept"
            )
    return [float(value) for value in found]


def _together(function: Callable[..., Any], examples: Sequence[Example], completions: Sequence[str]) -> Any:
    """As TRL calls it: prompts, completions and the columns by name, a conversation's completion as a message."""
    names = list(dict.fromkeys(name for example in examples for name in example if name.isidentifier()))
    columns = {name: [example.get(name) for example in examples] for name in names if name not in ("id", "prompt")}
    texts = [
        text if isinstance(example["prompt"], str) else [{"role": "assistant", "content": text}]
        for example, text in zip(examples, completions, strict=True)
    ]
    return _awaited(function(**columns | {"prompts": [e["prompt"] for e in examples], "completions": texts}))


def _by_row(function: Callable[..., Any], examples: Sequence[Example], completions: Sequence[str]) -> list[Any]:
    """As verl calls it: one response at a time, with the ground truth and the other columns as `extra_info`."""
    parameters = inspect.signature(function).parameters
    found = []
    for example, text in zip(examples, completions, strict=True):
        given = {
            "data_source": example.get("data_source", "own"),
            "solution_str": text,
            "ground_truth": example.get("ground_truth", example.get("answer")),
            "extra_info": {name: value for name, value in example.items() if name != "prompt"},
        }
        value = _awaited(function(**{name: item for name, item in given.items() if name in parameters}))
        found.append(value.get("score") if isinstance(value, dict) else value)
    return found


def _awaited(value: Any) -> Any:
    async def wait(pending: Awaitable[Any]) -> Any:
        return await pending

    return asyncio.run(wait(value)) if inspect.isawaitable(value) else value


def _mark(function: Callable[..., Any]) -> str:
    """Sixteen hex digits of the file that holds the function: scores of an edited one must not mix with older ones."""
    try:
        file = inspect.getsourcefile(inspect.unwrap(function)) or ""
        return hashlib.blake2b(Path(file).read_bytes(), digest_size=8).hexdigest()
    except (OSError, TypeError):
        return ""
