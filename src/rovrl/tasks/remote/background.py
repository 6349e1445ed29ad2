"""An event loop in a thread of its own, one per process: requests run there, whoever waits for them can be interrupted."""

from __future__ import annotations

import asyncio
import atexit
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from typing import Any, Protocol, TypeVar

from rovrl.tasks.forks import aware_of_forks

T = TypeVar("T")
_GLANCE = 0.2  # seconds after which a waiting thread looks up
_FAREWELL = 1.0  # seconds for connections to close when the interpreter ends


class Closing(Protocol):
    """Something with connections to close."""

    async def close(self) -> None:
        """Closes them."""
        ...


class Background:
    """Runs coroutines on its loop, which is started at the first."""

    def __init__(self):
        self._left_behind: list[object] = []
        self._closing: weakref.WeakSet[Closing] = weakref.WeakSet()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        aware_of_forks(self)
        atexit.register(self.stop)

    def start_afresh(self) -> None:
        """In a forked copy: keeps the parent's loop unused, since closing it would stop the parent's own."""
        self._left_behind += [self._loop, self._thread]
        self._loop = self._thread = None
        self._starting = threading.Lock()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """A future of the coroutine's result; cancelling it cancels the coroutine."""
        return asyncio.run_coroutine_threadsafe(work, self._running())

    def submit_if_running(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Has `work` done if the loop runs; without one there is nothing to close."""
        if self._loop is not None:
            asyncio.run_coroutine_threadsafe(work(), self._loop)

    def closes(self, thing: Closing) -> None:
        """Has `thing.close()` awaited when the interpreter ends, if it still lives."""
        self._closing.add(thing)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The coroutine's result; an exception that strikes the waiting thread (Ctrl-C) leaves at once and cancels it."""
        future = self.submit(work)
        try:
            while not wait([future], timeout=_GLANCE).done:
                pass  # a signal that another thread received is handled when this one wakes
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """Cancels what runs, lets connections close, ends the thread."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        self._loop = self._thread = None
        asyncio.run_coroutine_threadsafe(_finish(list(self._closing)), loop)
        thread.join(2 * _FAREWELL)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_serve, args=(self._loop,), name="rewards", daemon=True)
                self._thread.start()
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()


async def _finish(closing: list[Closing]) -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    others += [asyncio.ensure_future(thing.close()) for thing in closing]
    if others:
        await asyncio.wait(others, timeout=_FAREWELL)
    asyncio.get_running_loop().stop()


background = Background()
"""the loop of this process"""
