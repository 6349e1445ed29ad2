"""`HttpReward`: rewards from a server, for TRL as a batch, for verl one at a time. A score that fails is None, never 0."""

from __future__ import annotations

import asyncio
import logging
import math
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from rovrl.errors import RovrlError
from rovrl.tasks.chat import conversation
from rovrl.tasks.forks import aware_of_forks
from rovrl.tasks.remote.background import background
from rovrl.tasks.remote.breaker import Breaker
from rovrl.tasks.remote.call import Answer, Call, Limits, Score
from rovrl.tasks.remote.failure import Failure
from rovrl.tasks.remote.gather import Gatherer
from rovrl.tasks.remote.payload import number
from rovrl.tasks.remote.protocols import PROTOCOLS, Protocol, Render, renderer
from rovrl.tasks.remote.tally import Tally
from rovrl.tasks.remote.told import fields
from rovrl.tasks.remote.transport import Transport, bearer, checked_address

logger = logging.getLogger("rovrl")
_TELLING = 60.0  # seconds between two warnings
_LINGER = 0.02  # seconds for which a single question waits for company


class HttpReward:
    """Rewards from the server at `url`, which speaks `protocol`: "rovrl", "vllm", "vllm-score", "sglang" or "openrlhf".

    `template` (the reward model's name, or a function) renders conversations for servers that take texts; `fields` go
    into every request; `token` is sent as a bearer token. The limits are those of `rovrl.tasks.remote.Limits`. No score at
    all for `patience` seconds is a RovrlError: training on would be training on nothing.

    `tally` counts over the client's life, `last` over the last call; `metrics()` has the latter by name, and TRL logs it.
    """

    def __init__(
        self,
        url: str,
        *,
        protocol: str | Protocol = "rovrl",
        template: str | Render | None = None,
        fields: dict[str, Any] | None = None,
        token: str | None = None,
        headers: dict[str, str] | None = None,
        patience: float = 600.0,
        max_answer: int = 4 << 20,
        **limits: Any,
    ):
        if not patience >= 0 or not max_answer > 0:
            raise ValueError(
                f"patience must not be negative and max_answer above zero, not {patience} and {max_answer}"
            )
        self.protocol, self._render = _chosen(protocol, template)
        if not (self.protocol.batched or self._render):
            limits["batch"] = 1
        self.__name__ = "reward_server"  # what TRL logs it under
        self.url = checked_address(url, self.protocol.path)
        self.limits = Limits(**limits)
        self.fields, self.patience = fields or {}, patience
        self.tally, self.last, self.last_error = Tally(), Tally(), ""
        self.breaker = Breaker()
        self._answered = False  # the server has given a score once
        self._silent_since: float | None = None
        self._told_until = 0.0
        self._transport = Transport(
            self.url, {**bearer(token), **(headers or {})}, self.limits.timeout, self.limits.requests, max_answer
        )
        self.start_afresh()
        weakref.finalize(self, _close, self._transport)
        aware_of_forks(self)

    def start_afresh(self) -> None:
        """In a forked copy: nobody waits for its parent's questions, and the breaker is its own."""
        self._gatherer = Gatherer(self._score, self.limits.batch, _LINGER)
        self.breaker = Breaker()

    def __call__(
        self,
        prompts: Sequence[object] = (),
        completions: Sequence[object] = (),
        log_metric: Callable[[str, float], object] | None = None,
        **columns: Any,
    ) -> list[Score]:
        """The server's score of each conversation, None where it failed; over after `limits.deadline` seconds."""
        items = self._items(prompts, completions, columns)
        scores = [answer.score for answer in background.run(self._score(items))] if items else []
        if log_metric is not None:
            for name, value in self.metrics().items():
                log_metric(name, value)
        return scores

    async def one(self, prompt: object, completion: object, **columns: Any) -> Score:
        """The score of one conversation, asked together with others that are wanted about the same time; for any event loop."""
        return (await self._one(prompt, completion, columns)).score

    async def one_told(self, prompt: object, completion: object, **columns: Any) -> dict[str, Any]:
        """The same as what verl takes from a reward function: "score", NaN for None, and fields that say what it took.

        The fields of a step's responses become verl's metrics (rovrl.integrations.verl), under the names that TRL logs.
        """
        answer = await self._one(prompt, completion, columns)
        score = math.nan if answer.score is None else answer.score
        told = fields(self.__name__, answer, self.breaker.is_open)
        return {"score": score, "acc": score, **told}  # acc: what verl's validation looks for

    async def _one(self, prompt: object, completion: object, columns: dict[str, Any]) -> Answer:
        item = self._items([prompt], [completion], {name: [value] for name, value in columns.items()})[0]
        return await asyncio.wrap_future(background.submit(self._gatherer.answer(item)))

    def metrics(self) -> dict[str, float]:
        """The last call in numbers, by metric name."""
        numbers = {**self.last.metrics(), "breaker_open": float(self.breaker.is_open)}
        return {f"{self.__name__}/{name}": value for name, value in numbers.items()}

    @property
    def failures(self) -> int:
        """How many scores have been None so far; `tally.missing` says for which reasons."""
        return self.tally.missing.total()

    def _items(self, prompts: Sequence[object], completions: Sequence[object], columns: dict[str, Any]) -> list[Any]:
        return [conversation(prompt, completion) for prompt, completion in zip(prompts, completions, strict=True)]

    async def _score(self, items: list[Any]) -> list[Answer]:
        order = sorted(range(len(items)), key=lambda place: _length(items[place]))  # models pad a batch to its longest
        call = Call([items[place] for place in order], self._ask, self.limits, self.breaker, self._transport.slots)
        try:
            await self._until_silence(call)
        except Failure as failure:
            raise RovrlError(f"the reward server {self.url} refuses the request ({failure})") from None
        finally:
            self.last = call.tally
            self.tally.add(call.tally)
            self.last_error = str(call.last_failure or self.last_error)
            self._tell(call.tally)
        if not self._answered and call.tally.missing["refused"] == len(items):
            raise RovrlError(
                f"the reward server {self.url} refuses every request ({self.last_error}): check that it speaks this protocol"
            )
        return [answer for _, answer in sorted(zip(order, call.answers, strict=True))]

    def _tell(self, tally: Tally) -> None:
        """One line a minute about what is missing; where no trainer logs the metrics it is the only sign."""
        if tally.missing and time.monotonic() >= self._told_until:
            self._told_until = time.monotonic() + _TELLING
            reasons = ", ".join(f"{count} {reason}" for reason, count in tally.missing.most_common())
            logger.warning(
                f"{self.url}: {tally.missing.total()} of {tally.asked} scores are None ({reasons}); {self.last_error}"
            )

    async def _until_silence(self, call: Call) -> None:
        """Runs the call; a RovrlError if the server has then given no score for `patience` seconds, or on the way."""
        start = time.monotonic()
        self._silent_since = start if self._silent_since is None else self._silent_since
        left = max(self.patience - (start - self._silent_since), min(self.limits.timeout, self.patience))
        running = asyncio.ensure_future(call.run())
        scored = asyncio.ensure_future(call.scored.wait())
        try:
            done, _ = await asyncio.wait({running, scored}, timeout=left or None, return_when=asyncio.FIRST_COMPLETED)
            if done:
                await running
        finally:
            running.cancel()
            scored.cancel()
            await asyncio.wait({running})  # for its counts
        if call.scored.is_set():
            self._answered, self._silent_since = True, None
        elif not done or time.monotonic() - self._silent_since >= self.patience:
            nothing = "null for every response" if call.tally.missing["null"] else "no answer so far"
            raise RovrlError(
                f"the reward server {self.url} has given no score for {self.patience:.0f} s "
                f"({call.last_failure or nothing}): start it again, then resume the run from its last "
                "checkpoint"
            )

    async def _ask(self, items: list[Any]) -> list[Score]:
        texts = [self._render(chat) for chat in items] if self._render else None
        try:
            answer = await self._transport.post({**self.protocol.body(items, texts), **self.fields})
        except Failure as failure:
            if (
                failure.misconfigured and self._answered
            ):  # it worked a moment ago: a proxy, or a server that is starting
                raise Failure("status", str(failure), divisible=False) from None
            raise
        try:
            scores = self.protocol.scores(answer, items)
            if isinstance(scores, str | dict) or len(scores) != len(items):
                raise ValueError(f"{len(scores)} scores for {len(items)} responses")  # noqa: TRY301
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise Failure("answer", f"an answer of another shape ({type(error).__name__}: {error})") from None
        return [number(score) for score in scores]


def _length(item: Any) -> int:
    return len(item) if isinstance(item, str) else sum(len(message["content"]) for message in item)


def _chosen(name: str | Protocol, template: str | Render | None) -> tuple[Protocol, Render | None]:
    if isinstance(name, Protocol):
        return name, None
    if name not in PROTOCOLS:
        raise ValueError(f"protocol must be one of {', '.join(PROTOCOLS)}, not {name!r}")
    protocol = PROTOCOLS[name]
    if protocol.needs_template and template is None:
        raise ValueError(
            f"protocol={name!r} takes texts: give template= the reward model's name, or a function that renders"
        )
    return protocol, renderer(template) if template is not None else None


def _close(transport: Transport) -> None:
    background.submit_if_running(transport.close)
