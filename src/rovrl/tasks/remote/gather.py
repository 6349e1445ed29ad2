"""Single questions that arrive about the same time, asked together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any


class Gatherer:
    """Collects up to `size` questions, or those of `linger` seconds, and has `ask` answer them in one go."""

    def __init__(self, ask: Callable[[list[Any]], Awaitable[list[Any]]], size: int, linger: float):
        self.size, self.linger = size, linger
        self._ask = ask
        self._waiting: list[tuple[Any, asyncio.Future[Any]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._asking: set[asyncio.Task[None]] = set()

    async def answer(self, question: Any) -> Any:
        """The answer to this question; whatever `ask` raises is raised to each of those who asked."""
        loop = asyncio.get_running_loop()
        mine: asyncio.Future[Any] = loop.create_future()
        self._waiting.append((question, mine))
        if len(self._waiting) >= self.size:
            self._send()
        elif self._timer is None:
            self._timer = loop.call_later(self.linger, self._send)
        return await mine

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        together, self._waiting, self._timer = self._waiting, [], None
        still_wanted = [(question, mine) for question, mine in together if not mine.done()]
        if still_wanted:
            task = asyncio.ensure_future(self._answer(still_wanted))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

    async def _answer(self, together: list[tuple[Any, asyncio.Future[Any]]]) -> None:
        try:
            answers = await self._ask([question for question, _ in together])
            for (_, mine), answer in zip(together, answers, strict=True):
                if not mine.done():
                    mine.set_result(answer)
        except BaseException as error:
            for _, mine in together:
                if not mine.done():
                    mine.set_exception(error) if isinstance(error, Exception) else mine.cancel()
            if not isinstance(error, Exception):
                raise
