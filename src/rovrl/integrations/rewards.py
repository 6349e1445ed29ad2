"""A user's reward function: found by its name, called as TRL or verl would call it, and what came back."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import inspect
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rovrl.errors import RovrlError, place_of

Function = Callable[..., Any]


@dataclass
class Completions:
    """Rows of one response each; `group` is equal for the responses to one prompt."""

    prompt: list[Any] = field(default_factory=list)
    """Texts, or conversations as lists of messages."""
    completion: list[str] = field(default_factory=list)
    group: list[str] = field(default_factory=list)
    columns: dict[str, list[Any]] = field(default_factory=dict)
    """Every other column, as reward functions are given them."""

    def __len__(self) -> int:
        return len(self.completion)

    def take(self, rows: list[int]) -> Completions:
        """Only these rows, in this order."""
        pick = lambda values: [values[k] for k in rows]  # noqa: E731
        columns = {name: pick(values) for name, values in self.columns.items()}
        return Completions(pick(self.prompt), pick(self.completion), pick(self.group), columns)


@dataclass
class Answer:
    """What one call gave: values, or the error, or something that is no list; and how long it took."""

    values: list[Any] = field(default_factory=list)
    error: str = ""
    no_list: str = ""
    """The type of what came back instead of a list."""
    seconds: float = 0.0

    @property
    def numbers(self) -> list[float]:
        """The values as floats; NaN for what is not a finite number."""
        return [float(v) if is_number(v) and math.isfinite(float(v)) else math.nan for v in self.values]


def is_number(value: object) -> bool:
    """Whether a reward can be taken as a number: of Python, NumPy or a tensor with one element."""
    if isinstance(value, str | bytes | list | dict | None):
        return False
    try:
        float(value)  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def load(name: str, beside: Path | None = None) -> Function:
    """The function that `module:function`, `module.function` or `file.py:function` names; a RovrlError says what is missing.

    Modules and files in the folder `beside` (default: the current one) count too. Of a class, as ms-swift names its rewards,
    it is an instance.
    """
    place, _, attribute = name.rpartition(":" if ":" in name else ".")
    if not place or not attribute:
        raise RovrlError(f"name a reward function as module:function or file.py:function, not {name!r}")
    folder = (beside or Path()).resolve()
    function = getattr(_imported(place, lambda: _module(place, folder)), attribute, None)
    if function is None:
        raise RovrlError(f"the reward function {name!r} cannot be imported: {place} has no {attribute}")
    if isinstance(function, type):
        function = _imported(name, function)
    if not callable(function):
        raise RovrlError(f"the reward function {name!r} is not a function but of type {type(function).__name__}")
    return function


def call(function: Function, rows: Completions, chat: bool) -> Answer:
    """One call on all rows (TRL: `prompts`, `completions` and the other columns), or one per row (verl: `solution_str`).

    A function may be asynchronous, as in both; what it prints goes to standard error, where it spoils no JSON.
    """
    start = time.perf_counter()
    try:
        with contextlib.redirect_stdout(sys.stderr):
            values = called(function, rows, chat, **_of_a_trainer())
    except (Exception, SystemExit) as error:
        return Answer(error=f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}".rstrip(": "))
    values = values.tolist() if hasattr(values, "tolist") else values
    if not isinstance(values, list | tuple):
        return Answer(no_list=type(values).__name__)
    return Answer(list(values), seconds=time.perf_counter() - start)


def called(function: Function, rows: Completions, chat: bool, **others: Any) -> Any:
    """What the function returns; whatever it raises is raised. One of TRL's kind is given `others` beside the columns."""
    return _by_row(function, rows) if takes_one(function) else _together(function, rows, chat, others)


def takes_one(function: Function) -> bool:
    """Whether the function is of verl's kind: one response at a time, named `solution_str`."""
    try:
        return "solution_str" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _together(function: Function, rows: Completions, chat: bool, others: dict[str, Any]) -> Any:
    completions = [[{"role": "assistant", "content": text}] for text in rows.completion] if chat else rows.completion
    prompts = [_messages(prompt) for prompt in rows.prompt] if chat else rows.prompt
    given = {name: values for name, values in rows.columns.items() if name.isidentifier()} | others
    return _awaited([function(**(given | {"prompts": list(prompts), "completions": list(completions)}))])[0]


def _messages(prompt: str | list[dict[str, str]]) -> list[dict[str, str]]:
    return prompt if isinstance(prompt, list) else [{"role": "user", "content": prompt}]


def _of_a_trainer() -> dict[str, Any]:
    """What TRL gives beside the columns, as before the first step; what is logged is dropped."""
    state = SimpleNamespace(global_step=0, epoch=0.0, max_steps=0, num_train_epochs=0)
    return {"trainer_state": state, "log_extra": lambda *_: None, "log_metric": lambda *_: None}


def _awaited(values: list[Any]) -> list[Any]:
    """The values, those of coroutines once they are done; they run together, as in a trainer."""
    if not any(map(inspect.isawaitable, values)):
        return values

    async def result(value: Any) -> Any:
        return await value if inspect.isawaitable(value) else value

    async def together() -> list[Any]:
        return await asyncio.gather(*map(result, values))

    return asyncio.run(together())


def _by_row(function: Function, rows: Completions) -> list[Any]:
    names = inspect.signature(function).parameters
    columns = rows.columns
    truth = next((columns[name] for name in ("ground_truth", "gts", "answer", "solution") if name in columns), None)
    found = []
    for k, text in enumerate(rows.completion):
        given = {
            "data_source": (columns.get("data_source") or [None] * len(rows))[k] or "own",
            "solution_str": text,
            "ground_truth": None if truth is None else truth[k],
            "extra_info": {name: values[k] for name, values in columns.items()},
        }
        found.append(function(**{name: item for name, item in given.items() if name in names}))
    return [value.get("score") if isinstance(value, dict) else value for value in _awaited(found)]


def _module(place: str, folder: Path) -> Any:
    if not place.endswith(".py"):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
        return importlib.import_module(place)
    path = folder / place
    if not path.is_file():
        raise RovrlError(f"{place} does not exist")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None  # a path that ends in .py has a loader
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _imported(place: str, how: Callable[[], Any]) -> Any:
    try:
        return how()
    except RovrlError:
        raise
    except (Exception, SystemExit) as error:
        raise RovrlError(f"{place!r} cannot be imported: {type(error).__name__}: {error}{place_of(error)}") from error
