"""Verdicts on untrusted answers: math-verify in processes of its own with time and memory limits, replaced when they die.

Safe from any thread, in forked copies, and wherever an interruption strikes: a caller only waits, and the program that judges
(`verifier.py`) is talked to by the background loop, which no signal reaches. It ends with the interpreter, also when that is
killed (its input closes).
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import itertools
import json
import os
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from rovrl.errors import RovrlError, require
from rovrl.tasks.background import background
from rovrl.tasks.verifier import CLOCK, KILLED

WORKERS_VARIABLE = "ROVRL_VERIFIER_WORKERS"
MOST_WORKERS = 8  # by default: a rollout's answers are judged in seconds by fewer
ATTEMPTS = 4  # a question whose worker is killed from outside is asked again
START = 120.0  # seconds the program may take to import sympy on a busy machine
FAREWELL = 2.0  # seconds the program has to end its judges once its input is closed
GRACE = 20.0  # seconds beyond an answer's own limit by the clock without any reply, before the program is given up


class Verdict(NamedTuple):
    """Whether an answer was accepted, and for a refusal without a comparison the reason.

    Not `judged`: the verifier failed, which says nothing about the answer.
    """

    accepted: bool
    reason: str = ""
    judged: bool = True


LOST = Verdict(False, KILLED, judged=False)
"""the worker or its program was killed from outside: worth asking again"""


class VerifierPool:
    """math-verify behind `workers` processes.

    Each answer has `time_limit` seconds of processor time (ten times that by the clock) and `memory` bytes of address space.
    """

    def __init__(self, workers: int | None = None, *, time_limit: float = 3.0, memory: int = 1 << 30):
        if workers is not None and workers < 1:
            raise ValueError(f"workers must be at least 1, not {workers}")
        if not time_limit > 0:
            raise ValueError(f"time_limit must be a positive number of seconds, not {time_limit}")
        self.workers = workers or default_workers()
        self.time_limit = time_limit
        self.memory = memory
        self._verifier = _Verifier(self.workers, time_limit, memory)
        weakref.finalize(self, background.close, self._verifier)

    def verify(self, pairs: Sequence[tuple[str, str]], *, on_done: Callable[[], object] | None = None) -> list[Verdict]:
        """One verdict per (answer, gold) pair, in order; `on_done` is called after each, in the background's thread.

        An exception that arrives here (Ctrl-C, an alarm) leaves at once; questions that were under way are dropped.
        """
        return background.run(self._verifier.verdicts, pairs, on_done or (lambda: None))

    def close(self) -> None:
        """Ends the workers; asking again afterwards is an error."""
        self._verifier.closed = True
        background.run(self._verifier.close)

    def pids(self) -> list[int]:
        """The number of the running program, whose children the judges are; none before the first question."""
        program = self._verifier.program
        return [] if program is None else [program.pid]

    def __enter__(self) -> VerifierPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Verifier:
    """A pool's program as the loop sees it: started when it is first asked, and again when it has died."""

    def __init__(self, workers: int, time_limit: float, memory: int):
        self.closed = False
        self._arguments = (workers, time_limit, memory)
        self._patience = CLOCK * time_limit + GRACE
        self._numbers = itertools.count(1)
        self._left_behind: list[object] = []
        self._begin()
        background.houses(self)

    def _begin(self) -> None:
        self.program: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._waiting: dict[int, asyncio.Future[Verdict]] = {}
        self._heard = 0.0

    def forget(self) -> None:
        """In a forked copy: a program of its own, and no copy of the pipe whose end tells the parent's to end."""
        if self.program is not None and self.program.stdin is not None:
            self.program.stdin.transport.get_extra_info("pipe").close()
        self._left_behind += [self.program, self._reading, self._starting, self._waiting]
        self._begin()

    async def verdicts(self, pairs: Sequence[tuple[str, str]], on_done: Callable[[], object]) -> list[Verdict]:
        """A verdict on each pair; an error if the pool was closed or its program does not start."""
        asked = [asyncio.ensure_future(self._verdict(pair, on_done)) for pair in pairs]
        try:
            return await asyncio.gather(*asked)
        finally:
            for one in asked:
                one.cancel()

    async def close(self) -> None:
        """Ends the program with its workers, whatever they are doing."""
        program = self.program
        if program is None or program.stdin is None:
            return
        program.stdin.close()
        try:
            async with asyncio.timeout(FAREWELL):
                await program.wait()
        except TimeoutError:
            _kill(program)
            await program.wait()

    async def _verdict(self, pair: tuple[str, str], on_done: Callable[[], object]) -> Verdict:
        verdict = LOST
        for _ in range(ATTEMPTS):
            if self.closed:
                raise RovrlError("this VerifierPool was closed: make a new one")
            verdict = await self._ask(await self._started(), pair)
            if verdict != LOST:
                break
        on_done()
        return verdict

    async def _ask(self, program: asyncio.subprocess.Process, pair: tuple[str, str]) -> Verdict:
        assert program.stdin is not None
        if program is not self.program:
            return LOST
        number, loop = next(self._numbers), asyncio.get_running_loop()
        self._waiting[number], self._heard = loop.create_future(), loop.time()
        program.stdin.write(json.dumps([number, *pair]).encode() + b"\n")
        try:
            return await self._waiting[number]
        except asyncio.CancelledError:
            program.stdin.write(b"[%d]\n" % number)
            raise
        finally:
            self._waiting.pop(number, None)

    async def _started(self) -> asyncio.subprocess.Process:
        async with self._starting:
            if self.program is None:
                if importlib.util.find_spec("math_verify") is None:  # not imported: sympy stays out of this process
                    require("math_verify", extra="tasks")
                self.program = await asyncio.create_subprocess_exec(
                    sys.executable, "-P", str(Path(__file__).with_name("verifier.py")), *map(str, self._arguments),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
                    start_new_session=True,  # Ctrl-C is for the user's program, which then closes the pool
                )  # fmt: skip
                self._reading = asyncio.create_task(self._read(self.program))
            return self.program

    async def _read(self, program: asyncio.subprocess.Process) -> None:
        """Hands out replies until the program ends; what is still asked then is lost, or cannot be asked at all."""
        started, cause = False, "it ended at once"
        while line := await self._line(program, self._patience if started else max(self._patience, START)):
            told = json.loads(line)
            if "number" not in told:
                started, cause = told["ready"], told.get("reason", "")
            elif (asking := self._waiting.get(told["number"])) is not None and not asking.done():
                asking.set_result(Verdict(told["accepted"], told["reason"], told["judged"]))
        _kill(program)
        code, self.program = await program.wait(), None
        sentence = f"the answer verifier did not start ({cause}): check `python -c 'import math_verify'`"
        for asking in self._waiting.values():
            if not asking.done() and (started or code == -signal.SIGKILL):
                asking.set_result(LOST)
            elif not asking.done():
                asking.set_exception(RovrlError(sentence))

    async def _line(self, program: asyncio.subprocess.Process, patience: float) -> bytes:
        """The next line of the program; b"" if it has ended, or has been asked and silent for too long."""
        assert program.stdout is not None
        loop = asyncio.get_running_loop()
        while True:
            try:
                async with asyncio.timeout(patience):
                    line = await program.stdout.readline()
            except TimeoutError:
                if self._waiting and loop.time() - self._heard > patience:
                    return b""
            else:
                self._heard = loop.time()
                return line


def _kill(program: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if program.returncode is None:
            os.killpg(program.pid, signal.SIGKILL)


def default_workers() -> int:
    """The number set in `ROVRL_VERIFIER_WORKERS`, else one for each core this process may use, at most 8."""
    setting = os.environ.get(WORKERS_VARIABLE, "").strip()
    if setting:
        if not setting.isdigit() or int(setting) < 1:
            raise RovrlError(f"{WORKERS_VARIABLE} must be a whole number above zero, not {setting!r}")
        return int(setting)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_WORKERS)


@lru_cache(maxsize=1)
def shared_pool() -> VerifierPool:
    """The pool of this process, made at the first call and closed at exit."""
    return VerifierPool()
