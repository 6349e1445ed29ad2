"""Numbers for responses: the task's own, those of reward functions of yours, and whether the scorer itself is right.

A reward of yours is called as TRL or verl would call it; a task's verifier is named by its task. `rovrl eval --check-gold` asks
whether the scorer accepts every gold answer of a file and refuses another problem's.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rovrl.errors import RovrlError, place_of
from rovrl.integrations.rewards import Completions, Function, called, is_number, load, takes_one
from rovrl.tasks import govreport, toolcall
from rovrl.tasks import math as problems
from rovrl.tasks.answers import final_answer, last_boxed
from rovrl.tasks.catalog import GOLD, Example, Row
from rovrl.tasks.verify import Verdict, shared_pool

Metrics = dict[str, float]
_ATTEMPTS = 3


def accuracy(examples: Sequence[Example], completions: Sequence[str]) -> list[Metrics]:
    """1 where math-verify accepts the final answer; a RovrlError, and not 0, if the verifier keeps failing."""
    answers = [example["answer"] for example in examples]
    for _ in range(_ATTEMPTS):
        found = problems.verdicts(completions, answers)  # what was judged is remembered: only failures are asked again
        if all(verdict.judged for verdict in found):
            return [{"accuracy": float(verdict.accepted)} for verdict in found]
    reasons = [verdict.reason for verdict in found if not verdict.judged]
    raise RovrlError(
        f"{len(reasons)} answers could not be judged ({', '.join(sorted(set(reasons)))}): what is finished is kept, repeat the "
        "command to go on"
    )


def summary_overlap(examples: Sequence[Example], completions: Sequence[str]) -> list[Metrics]:
    """ROUGE-1/2/L F1 against the reference summary."""
    pairs = zip(examples, completions, strict=True)
    return [govreport.rouge(completion, example["summary"]) for example, completion in pairs]


def tool_match(examples: Sequence[Example], completions: Sequence[str]) -> list[Metrics]:
    """ToolRL's total and its parts."""
    parts = [
        toolcall.parts(completion, example["ground_truth"])
        for example, completion in zip(examples, completions, strict=True)
    ]
    return [{"total": part.total, "format": part.format, "correctness": part.correctness} for part in parts]


MEASURES: dict[str, Callable[[Sequence[Example], Sequence[str]], list[Metrics]]] = {
    "math": accuracy,
    "govreport": summary_overlap,
    "toolcall": tool_match,
}
BINARY = frozenset({"accuracy"})
"""Metrics for which pass@k means something."""


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
    function = load(name)
    label = name.rpartition(":" if ":" in name else ".")[2]

    def measured(examples: Sequence[Example], completions: Sequence[str]) -> list[Metrics]:
        return [{label: value} for value in scores(label, function, examples, completions)]

    return Reward(label, _mark(function), measured)


def scores(name: str, function: Function, examples: Sequence[Example], completions: Sequence[str]) -> list[float]:
    """One finite number per response; a RovrlError that says where the function failed, or for which row it has none."""
    try:
        given = called(function, *_as_trainer(function, examples, completions))
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


def _as_trainer(
    function: Function, examples: Sequence[Example], completions: Sequence[str]
) -> tuple[Completions, bool]:
    """What a trainer would call the function with, and whether in conversations; verl gives a row's id along, TRL does not."""
    left_out = {"prompt"} if takes_one(function) else {"prompt", "id"}
    names = dict.fromkeys(name for example in examples for name in example if name not in left_out)
    columns = {name: [example.get(name) for example in examples] for name in names}
    prompts = [example["prompt"] for example in examples]
    return Completions(prompts, list(completions), columns=columns), not any(isinstance(p, str) for p in prompts)


def _mark(function: Function) -> str:
    """Sixteen hex digits of the file that holds the function: scores of an edited one must not mix with older ones."""
    try:
        file = inspect.getsourcefile(inspect.unwrap(function)) or ""
        return hashlib.blake2b(Path(file).read_bytes(), digest_size=8).hexdigest()
    except (OSError, TypeError):
        return ""


OnDone = Callable[[int], object]
"""Called with how many more entries have been judged."""


class Check(NamedTuple):
    """A question asked of many rows: (id, answer shown, gold) each, and the judge that answers them."""

    name: str
    entries: list[tuple[str, str, str]]
    judge: Callable[[list[tuple[str, str, str]], OnDone], list[Verdict]]


def checks(rows: list[Row]) -> list[Check]:
    """What can be asked of these rows: tool turns if they hold any, else math answers."""
    tools = [(str(row.get("id", n)), truth, truth) for n, row in enumerate(rows) if (truth := _truth(row)) is not None]
    if tools:
        return [Check("gold turn has the full score", tools, _full_score)]
    given = [(str(row.get("id", n)), row, str(row.get("answer") or "").strip()) for n, row in enumerate(rows)]
    boxed = [(name, f"The answer is $\\boxed{{{answer}}}$.", answer) for name, _, answer in given]
    solved = [(name, str(row.get("solution") or ""), answer) for name, row, answer in given]
    solved = [entry for entry in solved if entry[2] and last_boxed(entry[1]) is not None]
    filled = [entry for entry in boxed if entry[2]]
    wrong = [(a[0], b[1], a[2]) for a, b in zip(filled, filled[1:] + filled[:1], strict=True) if a[2] != b[2]]
    asked = [
        Check("gold answer, boxed, accepted", boxed, _accepted),
        Check("the same by math-verify alone", filled, _alone),
        Check("worked solution accepted", solved, _accepted),
        Check("another problem's answer refused", wrong, _refused),
    ]
    return [check for check in asked if check.entries]


def run_check(check: Check, on_done: OnDone = lambda count: None) -> dict[str, Any]:
    """How many entries of a check came out right, how long it took, and the exceptions with their reason."""
    started = time.perf_counter()
    verdicts = check.judge(check.entries, on_done)
    exceptions = [
        (name, gold[:80], verdict.reason or ("math-verify finds no equality" if gold else "the file has no answer"))
        for (name, _, gold), verdict in zip(check.entries, verdicts, strict=True)
        if not verdict.accepted
    ]
    return {
        "check": check.name,
        "asked": len(check.entries),
        "right": len(check.entries) - len(exceptions),
        "seconds": time.perf_counter() - started,
        "exceptions": exceptions,
    }


def _accepted(entries: list[tuple[str, str, str]], on_done: OnDone) -> list[Verdict]:
    return problems.verdicts([shown for _, shown, _ in entries], [gold for _, _, gold in entries], on_done=on_done)


def _refused(entries: list[tuple[str, str, str]], on_done: OnDone) -> list[Verdict]:
    found = _accepted(entries, on_done)
    return [
        Verdict(not verdict.accepted, f"accepts {last_boxed(shown)}" if verdict.accepted else "")
        for (_, shown, _), verdict in zip(entries, found, strict=True)
    ]


def _alone(entries: list[tuple[str, str, str]], on_done: OnDone) -> list[Verdict]:
    """Past the shortcut for equal texts and integers: math-verify itself."""
    pairs = [(final_answer(shown), gold) for _, shown, gold in entries]
    return shared_pool().verify(pairs, on_done=lambda: on_done(1))


def _full_score(entries: list[tuple[str, str, str]], on_done: OnDone) -> list[Verdict]:
    verdicts = []
    for _, shown, truth in entries:
        highest = 4.0 if "<tool_call>" in truth else 1.0
        found = toolcall.score(shown, truth)
        verdicts.append(Verdict(found == highest, "" if found == highest else f"{found} instead of {highest}"))
        on_done(1)
    return verdicts


def _truth(row: Row) -> str | None:
    model = row.get("reward_model")
    nested = model.get("ground_truth") if isinstance(model, dict) else None
    truth = row.get("ground_truth", nested)
    return truth if isinstance(truth, str) and ("<tool_call>" in truth or "<response>" in truth) else None
