"""What single answers took, as flat fields beside a score, and a step's metrics from the fields of its responses.

An engine that asks for one response at a time, in processes of its own (verl's reward loop), logs what the driver knows. The
fields travel there with the scores.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Any

from rovrl.tasks.remote.call import Answer
from rovrl.tasks.remote.tally import Tally

_OPEN = "/breaker_open"


def fields(name: str, answer: Answer, breaker_open: bool) -> dict[str, Any]:
    """`answer` as NAME/FIELD -> a number, or for `none` the reason; always the same fields, as verl's batches need."""
    numbers = {key: getattr(answer, key) for key in ("seconds", "requests", "retries", "splits")}
    told = {**numbers, "none": answer.reason, "breaker_open": float(breaker_open)}
    return {f"{name}/{key}": value for key, value in told.items()}


def metrics(told: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The metrics of responses with these fields, under the names that `HttpReward.metrics` has; {} where there are none.

    Quantiles are taken over responses, each with the seconds of its last request.
    """
    found: dict[str, float] = {}
    for name in dict.fromkeys(key.removesuffix(_OPEN) for each in told for key in each if key.endswith(_OPEN)):
        mine = [each for each in told if name + _OPEN in each]
        numbers = {**_tally(name, mine).metrics(), "breaker_open": max(each[name + _OPEN] for each in mine)}
        found.update({f"{name}/{key}": value for key, value in numbers.items()})
    return found


def _tally(name: str, told: Sequence[Mapping[str, Any]]) -> Tally:
    requests, retries, splits = (
        sum(each[f"{name}/{key}"] for each in told) for key in ("requests", "retries", "splits")
    )
    return Tally(
        asked=len(told),
        requests=requests,
        retries=retries,
        splits=splits,
        missing=Counter(reason for each in told if (reason := each[f"{name}/none"])),
        seconds=deque(seconds for each in told if (seconds := each[f"{name}/seconds"])),
    )
