"""One call for rewards: batches in flight, attempts, halves of batches that fail, and a time at which it is over."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tenacity import AsyncRetrying, RetryCallState, retry_if_result, stop_after_attempt, wait_random_exponential

from rovrl.tasks.remote.breaker import Breaker
from rovrl.tasks.remote.failure import Failure
from rovrl.tasks.remote.tally import Tally

Score = float | None
Ask = Callable[[list[Any]], Awaitable[list[Score]]]
"""one request: the scores of some items; raises a Failure"""
Outcome = list[Score] | Failure


class Answer(NamedTuple):
    """A score and what it took; without one the `reason`, a key of REASONS.

    `seconds` are those of the last request it was part of; `requests`, `retries` and `splits` its share of its call's, so that
    they add up over any set of answers.
    """

    score: Score
    reason: str = ""
    seconds: float = 0.0
    requests: float = 0.0
    retries: float = 0.0
    splits: float = 0.0


@dataclass(frozen=True)
class Limits:
    """The bounds of a call; every time is in seconds."""

    batch: int = 32  # responses per request
    requests: int = 4  # in flight
    timeout: float = 60.0  # of one attempt, from the first byte sent to the last received
    batch_deadline: float = 180.0  # of one batch: attempts, pauses and halves
    deadline: float = 600.0  # of the whole call
    retries: int = 3
    pause: float = 0.5  # before the first retry, about; then twice that, ...

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            whole = name in ("batch", "requests", "retries")
            if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
                raise ValueError(f"{name} must be a {'whole ' * whole}number, not {value!r}")
            if name in ("retries", "pause") and not value >= 0:
                raise ValueError(f"{name} must not be negative, but is {value}")
            if name not in ("retries", "pause") and not value > 0:
                raise ValueError(f"{name} must be above zero, not {value}")


class Call:
    """The scores of `items`, found by `ask`; None wherever it failed, and `tally` says why.

    A batch that keeps failing is halved until the response that causes it is found: one poisonous response costs its own
    score, not its neighbours'.
    """

    def __init__(self, items: Sequence[Any], ask: Ask, limits: Limits, breaker: Breaker, slots: asyncio.Semaphore):
        self.items, self.limits = items, limits
        self.scores: list[Score] = [None] * len(items)
        self.tally = Tally(asked=len(items))
        self.scored = asyncio.Event()
        self.last_failure: Failure | None = None
        self._reasons = ["deadline"] * len(items)
        self._seconds = [0.0] * len(items)
        self._ask, self._breaker, self._slots = ask, breaker, slots

    async def run(self) -> None:
        """Returns when every score is there or given up, `deadline` seconds from now at the latest."""
        places, size = range(len(self.items)), self.limits.batch
        batches = [asyncio.create_task(self._batch(places[n : n + size])) for n in range(0, len(places), size)]
        try:
            async with asyncio.timeout(self.limits.deadline):
                await asyncio.gather(*batches)
        except TimeoutError:
            pass  # what has not been settled by now keeps its reason, "deadline"
        finally:
            for batch in batches:
                batch.cancel()
            self.tally.missing.update(
                reason for reason, score in zip(self._reasons, self.scores, strict=True) if score is None
            )

    @property
    def answers(self) -> list[Answer]:
        """What the call found for each item, and what it took."""
        shares = [
            number / max(len(self.items), 1) for number in (self.tally.requests, self.tally.retries, self.tally.splits)
        ]
        return [
            Answer(score, reason if score is None else "", seconds, *shares)
            for score, reason, seconds in zip(self.scores, self._reasons, self._seconds, strict=True)
        ]

    async def _batch(self, places: Sequence[int]) -> None:
        async with self._slots:
            try:
                async with asyncio.timeout(self.limits.batch_deadline):
                    await self._settle(places, self.limits.retries + 1)
            except TimeoutError:
                pass

    async def _settle(self, places: Sequence[int], attempts: int) -> None:
        outcome = await self._attempts(places, attempts)
        if isinstance(outcome, Failure):
            await self._give_up(places, attempts, outcome)
            return
        for place, score in zip(places, outcome, strict=True):
            self.scores[place], self._reasons[place] = score, "null"
            if score is not None:
                self.scored.set()

    async def _give_up(self, places: Sequence[int], attempts: int, failure: Failure) -> None:
        if failure.misconfigured:
            raise failure
        if failure.divisible and len(places) > 1:
            self.tally.splits += 1
            middle = len(places) // 2
            for half in (places[:middle], places[middle:]):
                await self._settle(half, min(attempts, 2))
            return
        for place in places:
            self._reasons[place] = failure.reason

    async def _attempts(self, places: Sequence[int], attempts: int) -> Outcome:
        """What the last attempt gave. A failure is a value here: raised, it and what retries would hold on to each other."""
        retrying = AsyncRetrying(
            stop=stop_after_attempt(attempts),
            retry=retry_if_result(lambda outcome: isinstance(outcome, Failure) and outcome.again),
            wait=self._wait,
            before_sleep=self._count_retry,
            retry_error_callback=_outcome,
        )
        try:
            return await retrying(self._attempt, places)
        finally:
            retrying.iter_state.reset()  # the methods of its owner are in it: garbage that only a collector would find

    async def _attempt(self, places: Sequence[int]) -> Outcome:
        await self._breaker.admit()
        start = time.monotonic()
        try:
            scores = await self._ask([self.items[place] for place in places])
        except Failure as failure:
            self.last_failure = failure.bare()
            self._breaker.report(answered=not failure.again)  # a refusal is an answer
            return failure
        except BaseException:
            self._breaker.withdraw()
            raise
        else:
            self._breaker.report(answered=True)
            return scores
        finally:
            seconds = time.monotonic() - start
            self.tally.requests += 1
            self.tally.seconds.append(seconds)
            for place in places:
                self._seconds[place] = seconds

    def _wait(self, state: RetryCallState) -> float:
        """Growing pauses with jitter, so that clients do not come back all at once; longer if the server asks for it."""
        failure = _outcome(state)
        asked = failure.wait if isinstance(failure, Failure) else 0.0
        jittered = wait_random_exponential(multiplier=2 * self.limits.pause, max=30.0, min=self.limits.pause / 2)
        return max(asked, jittered(state) if self.limits.pause else 0.0)

    def _count_retry(self, state: RetryCallState) -> None:
        self.tally.retries += 1


def _outcome(state: RetryCallState) -> Any:
    return state.outcome.result() if state.outcome else None
