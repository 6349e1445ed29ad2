"""One call for rewards: batches in flight, attempts, halves of batches that fail, a deadline; and what each score took."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from tenacity import AsyncRetrying, RetryCallState, retry_if_result, stop_after_attempt, wait_random_exponential

from rovrl.tasks.remote.transport import REASONS, Failure

Score = float | None
KEPT = 10_000  # responses over which the quantiles are taken
LONGEST_PAUSE = 30.0  # seconds between two attempts, unless the server asks for more
OPEN = "/breaker_open"


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

    def fields(self, name: str, breaker_open: bool) -> dict[str, Any]:
        """NAME/FIELD -> a number, or for `none` the reason; always the same fields, as verl's batches need."""
        numbers = {key: getattr(self, key) for key in ("seconds", "requests", "retries", "splits")}
        told = {**numbers, "none": self.reason, "breaker_open": float(breaker_open)}
        return {f"{name}/{key}": value for key, value in told.items()}


@dataclass
class Tally:
    """What some answers took together: those of a call, of a step, of a client's life."""

    asked: int = 0
    requests: float = 0
    retries: float = 0
    splits: float = 0
    missing: Counter[str] = field(default_factory=Counter)
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))

    @classmethod
    def of(cls, answers: Sequence[Answer]) -> Tally:
        """What these took."""
        return cls(
            asked=len(answers),
            requests=sum(answer.requests for answer in answers),
            retries=sum(answer.retries for answer in answers),
            splits=sum(answer.splits for answer in answers),
            missing=Counter(answer.reason for answer in answers if answer.reason),
            seconds=deque((answer.seconds for answer in answers if answer.seconds), maxlen=KEPT),
        )

    def add(self, other: Tally) -> None:
        """Adds the counts of `other`."""
        self.asked += other.asked
        self.requests += other.requests
        self.retries += other.retries
        self.splits += other.splits
        self.missing.update(other.missing)
        self.seconds.extend(other.seconds)

    def metrics(self) -> dict[str, float]:
        """Numbers by name, always the same names: every rank of a distributed run must log the same."""
        shares = {f"none/{reason}": self.missing[reason] / max(self.asked, 1) for reason in REASONS}
        return {
            "seconds/p50": quantile(self.seconds, 0.5),
            "seconds/p95": quantile(self.seconds, 0.95),
            "requests": float(self.requests),
            "retries": float(self.retries),
            "splits": float(self.splits),
            "none": self.missing.total() / max(self.asked, 1),
            **shares,
        }


def metrics(told: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The metrics of responses that carry an answer's `fields`, under the names that `HttpReward.metrics` has; {} if none does.

    verl asks for one response at a time, in processes of its own, and logs what its driver knows: the fields travel there with
    the scores.
    """
    found: dict[str, float] = {}
    for name in dict.fromkeys(key.removesuffix(OPEN) for each in told for key in each if key.endswith(OPEN)):
        mine = [each for each in told if name + OPEN in each]
        answers = [
            Answer(None, each[f"{name}/none"], *(each[f"{name}/{key}"] for key in Answer._fields[2:])) for each in mine
        ]
        numbers = {**Tally.of(answers).metrics(), "breaker_open": max(each[name + OPEN] for each in mine)}
        found.update({f"{name}/{key}": value for key, value in numbers.items()})
    return found


def quantile(values: Iterable[float], level: float) -> float:
    """The smallest value that at least a share `level` of the values do not exceed; 0 for none."""
    ordered = sorted(values)
    return ordered[min(int(level * len(ordered)), len(ordered) - 1)] if ordered else 0.0


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


class Breaker:
    """Closed, requests pass. After `threshold` failures in a row it opens: one trial at a time, at growing intervals.

    One trial that succeeds closes it. All methods are called in one event loop.
    """

    def __init__(self, threshold: int = 8, pause: float = 1.0, longest: float = 30.0):
        self.threshold, self.pause, self.longest = threshold, pause, longest
        self.openings = 0
        self._failures = 0
        self._next_trial = 0.0
        self._trying = False

    @property
    def is_open(self) -> bool:
        """Whether requests are being held back."""
        return self._failures >= self.threshold

    async def admit(self) -> None:
        """Returns when a request may be sent; to be followed by `report` or `withdraw`."""
        while self.is_open:
            wait = self._next_trial - time.monotonic()
            if wait <= 0 and not self._trying:
                self._trying = True
                return
            await asyncio.sleep(min(max(wait, 0.05), 0.5))

    def report(self, answered: bool) -> None:
        """What became of an admitted request."""
        self._trying = False
        self._failures = 0 if answered else self._failures + 1
        if self.is_open:
            beyond = self._failures - self.threshold
            self.openings += beyond == 0
            self._next_trial = time.monotonic() + min(self.pause * 2 ** min(beyond, 30), self.longest)

    def withdraw(self) -> None:
        """The caller gave up the admitted request for its own reasons, which says nothing about the server."""
        self._trying = False


class Call:
    """The answers to `items`, found by `ask` (the scores of some, or a Failure); None wherever it failed, with the reason.

    A batch that keeps failing is halved until the response that causes it is found: one poisonous response costs its own
    score, not its neighbours'.
    """

    def __init__(
        self,
        items: Sequence[Any],
        ask: Callable[[list[Any]], Awaitable[list[Score]]],
        limits: Limits,
        breaker: Breaker,
        slots: asyncio.Semaphore,
    ):
        self.items, self.limits = items, limits
        self.scored = asyncio.Event()
        self.last_failure: Failure | None = None
        self._found = [Answer(None, "deadline")] * len(items)
        self._requests = self._retries = self._splits = 0
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

    @property
    def answers(self) -> list[Answer]:
        """What the call found for each item so far, and what it took."""
        shares = [count / max(len(self.items), 1) for count in (self._requests, self._retries, self._splits)]
        return [Answer(*answer[:3], *shares) for answer in self._found]

    @property
    def tally(self) -> Tally:
        """The same together."""
        return replace(
            Tally.of(self._found), requests=self._requests, retries=self._retries, splits=self._splits
        )  # whole, not sums of shares

    async def _batch(self, places: Sequence[int]) -> None:
        async with self._slots:
            try:
                async with asyncio.timeout(self.limits.batch_deadline):
                    await self._settle(places, self.limits.retries + 1)
            except TimeoutError:
                pass

    async def _settle(self, places: Sequence[int], attempts: int) -> None:
        outcome = await self._attempts(places, attempts)
        if not isinstance(outcome, Failure):
            for place, score in zip(places, outcome, strict=True):
                self._found[place] = self._found[place]._replace(
                    score=score, reason="" if score is not None else "null"
                )
            if any(score is not None for score in outcome):
                self.scored.set()
        elif outcome.misconfigured:
            raise outcome
        elif outcome.divisible and len(places) > 1:
            self._splits += 1
            for half in (places[: len(places) // 2], places[len(places) // 2 :]):
                await self._settle(half, min(attempts, 2))
        else:
            for place in places:
                self._found[place] = self._found[place]._replace(reason=outcome.reason)

    async def _attempts(self, places: Sequence[int], attempts: int) -> list[Score] | Failure:
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

    async def _attempt(self, places: Sequence[int]) -> list[Score] | Failure:
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
            self._requests += 1
            for place in places:
                self._found[place] = self._found[place]._replace(seconds=time.monotonic() - start)

    def _wait(self, state: RetryCallState) -> float:
        """Growing pauses with jitter, so that clients do not come back all at once; longer if the server asks for it."""
        failure = _outcome(state)
        asked = failure.wait if isinstance(failure, Failure) else 0.0
        jittered = wait_random_exponential(
            multiplier=2 * self.limits.pause, max=LONGEST_PAUSE, min=self.limits.pause / 2
        )
        return max(asked, jittered(state) if self.limits.pause else 0.0)

    def _count_retry(self, state: RetryCallState) -> None:
        self._retries += 1


def _outcome(state: RetryCallState) -> Any:
    return state.outcome.result() if state.outcome else None
