"""An event loop in a thread of its own, one per process: what takes time is done there, and whoever waits can be interrupted.

A signal (Ctrl-C, an alarm) raises its exception in the main thread, at any moment. Nothing that the main thread shares with the
loop has a lock written in Python, which an exception could leave closed, so an exception leaves at once and the loop goes on.
Threads, pipes and connections belong to the process that made them; a forked copy has a loop of its own, and what lives in the
loop starts afresh there.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
GLANCE = 0.2  # seconds after which a waiting thread looks up: a signal that another thread received is handled then
FAREWELL = 5.0  # seconds for connections and processes to close when the interpreter ends


class Resident(Protocol):
    """Something that lives in the loop: it is closed when the interpreter ends, and starts afresh in a forked copy."""

    async def close(self) -> None:
        """Closes connections and processes."""
        ...

    def forget(self) -> None:
        """In a forked copy: starts afresh, without a word to what belongs to the parent."""
        ...


class Background:
    """Runs coroutines on its loop, which is started at the first."""

    def __init__(self):
        self._residents: weakref.WeakSet[Resident] = weakref.WeakSet()
        self._left_behind: list[object] = []
        self._running: tuple[asyncio.AbstractEventLoop, threading.Thread] | None = None
        self._starting = threading.Lock()
        atexit.register(self._stop)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def houses(self, resident: Resident) -> None:
        """Has `resident` closed and made to forget in time, as long as it lives."""
        self._residents.add(resident)

    def run(self, work: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
        """What `work(*arguments)` returns; an exception that strikes the waiting thread cancels it and leaves at once."""
        told: SimpleQueue[asyncio.Task[T]] = SimpleQueue()
        tasks: list[asyncio.Task[T]] = []
        loop = self.loop()

        def begin() -> None:
            tasks.append(loop.create_task(work(*arguments)))
            tasks[0].add_done_callback(told.put)

        def leave() -> None:
            for task in tasks:
                task.cancel()

        try:
            loop.call_soon_threadsafe(begin)
            while True:
                try:
                    return told.get(timeout=GLANCE).result()
                except Empty:
                    continue
        except BaseException:
            loop.call_soon_threadsafe(leave)
            raise

    def close(self, resident: Resident) -> None:
        """Has `resident` closed if the loop runs; without one it has nothing to close."""
        if self._running is not None:
            asyncio.run_coroutine_threadsafe(resident.close(), self._running[0])

    def loop(self) -> asyncio.AbstractEventLoop:
        """The running loop of this process."""
        with self._starting:
            if self._running is None:
                loop = asyncio.new_event_loop()
                thread = threading.Thread(target=_serve, args=(loop,), name="rewards", daemon=True)
                thread.start()
                self._running = (loop, thread)
            return self._running[0]

    def _forget(self) -> None:
        """In a forked copy: keeps the parent's loop unused, since closing it would stop the parent's own."""
        self._left_behind.append(self._running)
        self._running, self._starting = None, threading.Lock()
        for resident in list(self._residents):
            resident.forget()

    def _stop(self) -> None:
        """Cancels what runs, closes the residents, ends the thread."""
        if self._running is not None:
            loop, thread = self._running
            self._running = None
            asyncio.run_coroutine_threadsafe(_finish(list(self._residents)), loop)
            thread.join(2 * FAREWELL)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()


async def _finish(residents: list[Resident]) -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    others += [asyncio.ensure_future(resident.close()) for resident in residents]
    if others:
        await asyncio.wait(others, timeout=FAREWELL)
    asyncio.get_running_loop().stop()


background = Background()
"""the loop of this process"""
