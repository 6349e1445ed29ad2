"""Concurrent requests scored together: one thread for the model, batches of whatever is waiting."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rovrl.tasks.chat import Chat

Scorer = Callable[[list[Chat]], Sequence[Any]]
"""the scores of some conversations; a ValueError is about the conversations, any other exception about the machine"""


class Full(Exception):
    """More is waiting than the server is willing to hold."""


class Batcher:
    """Scores requests in one thread; those that wait are scored together, up to `size` conversations at a time.

    A batch that fails is scored again request by request, so that nobody fails for another's conversation.
    """

    def __init__(
        self, score: Scorer, size: int, max_waiting: int, on_batch: Callable[[int], object] = lambda size: None
    ):
        self.size, self.max_waiting = size, max_waiting
        self.waiting = 0  # conversations that are queued or being scored
        self._score, self._on_batch = score, on_batch
        self._queue: asyncio.Queue[tuple[list[Chat], asyncio.Future[list[float | None]]]] = asyncio.Queue()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="scorer")

    async def scores(self, chats: list[Chat]) -> list[float | None]:
        """The scores of one request; None where the scorer gives no finite number."""
        if self.waiting and self.waiting + len(chats) > self.max_waiting:
            raise Full
        mine: asyncio.Future[list[float | None]] = asyncio.get_running_loop().create_future()
        self.waiting += len(chats)
        try:
            self._queue.put_nowait((chats, mine))
            return await mine
        finally:
            self.waiting -= len(chats)

    async def run(self) -> None:
        """Scores until it is cancelled."""
        try:
            while True:
                together = [await self._queue.get()]
                count = len(together[0][0])
                while count < self.size and not self._queue.empty():
                    together.append(self._queue.get_nowait())
                    count += len(together[-1][0])
                await self._answer([(chats, mine) for chats, mine in together if not mine.done()])
        finally:
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def _answer(self, together: list[tuple[list[Chat], asyncio.Future[list[float | None]]]]) -> None:
        try:
            scores = await self._batch([chat for chats, _ in together for chat in chats])
        except Exception as error:
            if len(together) == 1:
                _fail(together[0][1], error)
                return
            for request in together:
                await self._answer([request])
            return
        for chats, mine in together:
            part, scores = scores[: len(chats)], scores[len(chats) :]
            if not mine.done():
                mine.set_result(part)

    async def _batch(self, chats: list[Chat]) -> list[float | None]:
        self._on_batch(len(chats))
        found = await asyncio.get_running_loop().run_in_executor(self._thread, self._score, chats)
        if len(found) != len(chats):
            raise RuntimeError(f"the scorer gave {len(found)} scores for {len(chats)} conversations")
        return [float(score) if score is not None and math.isfinite(score) else None for score in found]


def _fail(mine: asyncio.Future[list[float | None]], error: Exception) -> None:
    if not mine.done():
        mine.set_exception(error)
