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
from rovrl.tasks.background import background
from rovrl.tasks.chat import conversation
from rovrl.tasks.remote.call import Answer, Breaker, Call, Limits, Score, Tally
from rovrl.tasks.remote.protocols import PROTOCOLS, Protocol, Render, renderer
from rovrl.tasks.remote.transport import Failure, Transport, bearer, checked_address, number

logger = logging.getLogger("rovrl")
BETWEEN_WARNINGS = 60.0  # seconds
LINGER = 0.02  # seconds for which a single question waits for company


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
        self._answered = False  # the server has given a score once
        self._silent_since: float | None = None
        self._told_until = 0.0
        self._begin()
        self._transport = Transport(
            self.url, {**bearer(token), **(headers or {})}, self.limits.timeout, self.limits.requests, max_answer
        )
        weakref.finalize(self, background.close, self._transport)
        background.houses(self)

    def _begin(self) -> None:
        self.breaker = Breaker()
        self._together: list[tuple[Any, asyncio.Future[Answer]]] = []  # single questions that wait for company
        self._asking: set[asyncio.Task[None]] = set()

    def forget(self) -> None:
        """In a forked copy: nobody waits for its parent's questions; connections and breaker are its own."""
        self._begin()
        self._transport.forget()

    async def close(self) -> None:
        """Closes the connections; the next question opens new ones."""
        await self._transport.close()

    def __call__(
        self,
        prompts: Sequence[object] = (),
        completions: Sequence[object] = (),
        log_metric: Callable[[str, float], object] | None = None,
        **columns: Any,
    ) -> list[Score]:
        """The server's score of each conversation, None where it failed; over after `limits.deadline` seconds."""
        items = self._items(prompts, completions, columns)
        scores = [answer.score for answer in background.run(self._answers, items)] if items else []
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
        told = answer.fields(self.__name__, self.breaker.is_open)
        return {"score": score, "acc": score, **told}  # acc: what verl's validation looks for

    async def _one(self, prompt: object, completion: object, columns: dict[str, Any]) -> Answer:
        item = self._items([prompt], [completion], {name: [value] for name, value in columns.items()})[0]
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._gathered(item), background.loop()))

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

    async def _gathered(self, item: Any) -> Answer:
        """The answer to one question; those of `LINGER` seconds, or a batch of them, are asked in one go."""
        loop = asyncio.get_running_loop()
        mine: asyncio.Future[Answer] = loop.create_future()
        if not self._together:
            loop.call_later(LINGER, self._send, self._together)
        self._together.append((item, mine))
        if len(self._together) >= self.limits.batch:
            self._send(self._together)
        return await mine

    def _send(self, together: list[tuple[Any, asyncio.Future[Answer]]]) -> None:
        if together is self._together:  # else it was sent when it was full
            self._together = []
            task = asyncio.ensure_future(self._answer(together))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

    async def _answer(self, together: list[tuple[Any, asyncio.Future[Answer]]]) -> None:
        wanted = [(item, mine) for item, mine in together if not mine.done()]
        try:
            answers = await self._answers([item for item, _ in wanted])
        except Exception as error:
            for _, mine in wanted:
                if not mine.done():
                    mine.set_exception(error)
        else:
            for (_, mine), answer in zip(wanted, answers, strict=True):
                if not mine.done():
                    mine.set_result(answer)

    async def _answers(self, items: list[Any]) -> list[Answer]:
        if not items:
            return []
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
            self._warn()
        if not self._answered and self.last.missing["refused"] == len(items):
            raise RovrlError(
                f"the reward server {self.url} refuses every request ({self.last_error}): check that it speaks this protocol"
            )
        return [answer for _, answer in sorted(zip(order, call.answers, strict=True))]

    def _warn(self) -> None:
        """One line a minute about what is missing; where no trainer logs the metrics it is the only sign."""
        missing = self.last.missing
        if missing and time.monotonic() >= self._told_until:
            self._told_until = time.monotonic() + BETWEEN_WARNINGS
            reasons = ", ".join(f"{count} {reason}" for reason, count in missing.most_common())
            logger.warning(
                f"{self.url}: {missing.total()} of {self.last.asked} scores are None ({reasons}); {self.last_error}"
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
            null = any(answer.reason == "null" for answer in call.answers)
            nothing = "null for every response" if null else "no answer so far"
            raise RovrlError(
                f"the reward server {self.url} has given no score for {self.patience:.0f} s ({call.last_failure or nothing}): "
                "start it again, then resume the run from its last checkpoint"
            )

    async def _ask(self, items: list[Any]) -> list[Score]:
        texts = [self._render(chat) for chat in items] if self._render else None
        try:
            answer = await self._transport.post({**self.protocol.body(items, texts), **self.fields})
        except Failure as failure:
            if failure.misconfigured and self._answered:  # it worked before: a proxy, or a server that is starting
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
