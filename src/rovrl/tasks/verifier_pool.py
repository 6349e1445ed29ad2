"""Verdicts on untrusted answers: worker processes with time and memory limits, replaced when they die.

Safe from any thread and after a fork; the workers end with the interpreter, and also when it is killed (their input closes).
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from rovrl.errors import RovrlError, require

WORKERS_VARIABLE = "ROVRL_VERIFIER_WORKERS"
_GRACE = 20.0  # seconds beyond a worker's own clock limit before it is given up
_START = 120.0  # seconds a worker may take to import sympy on a busy machine


class Verdict(NamedTuple):
    """Whether an answer was accepted, and for a refusal without a comparison the reason."""

    accepted: bool
    reason: str = ""


class VerifierPool:
    """math-verify behind `workers` processes.

    Each answer has `time_limit` seconds of processor time (twice that by the clock) and `memory` bytes of address space.
    """

    def __init__(self, workers: int | None = None, *, time_limit: float = 3.0, memory: int = 1 << 30):
        if workers is not None and workers < 1:
            raise ValueError(f"workers must be at least 1, not {workers}")
        if not time_limit > 0:
            raise ValueError(f"time_limit must be a positive number of seconds, not {time_limit}")
        self.workers = workers or default_workers()
        self.time_limit = time_limit
        self.memory = memory
        self._free = threading.BoundedSemaphore(self.workers)
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._all: list[_Worker] = []
        self._closed = False
        self._owner = os.getpid()

    def verify(self, pairs: Sequence[tuple[str, str]], *, on_done: Callable[[], object] | None = None) -> list[Verdict]:
        """One verdict per (answer, gold) pair, in order; `on_done` is called after each."""
        verdicts: list[Verdict] = [Verdict(False)] * len(pairs)
        waiting = iter(range(len(pairs)))
        take = threading.Lock()
        failures: list[BaseException] = []

        def work() -> None:
            try:
                with self._borrow() as worker:
                    while not failures:
                        with take:
                            index = next(waiting, None)
                        if index is None:
                            return
                        verdicts[index] = worker.ask(*pairs[index])
                        if on_done is not None:
                            on_done()
            except BaseException as error:
                failures.append(error)

        helpers = [threading.Thread(target=work, daemon=True) for _ in range(min(self.workers, len(pairs)) - 1)]
        for helper in helpers:
            helper.start()
        if pairs:
            work()
        for helper in helpers:
            helper.join()
        if failures:
            raise failures[0]
        return verdicts

    def close(self) -> None:
        """Ends the workers; asking again afterwards is an error."""
        if os.getpid() != self._owner:
            return  # a forked copy at its end: the workers are its parent's
        with self._lock:
            self._closed = True
            workers, self._all, self._idle = self._all, [], []
        for worker in workers:
            worker.close()

    def __enter__(self) -> VerifierPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _borrow(self):
        with self._free:
            with self._lock:
                if self._closed:
                    raise RovrlError("this VerifierPool was closed: make a new one")
                worker = self._idle.pop() if self._idle else None
                if worker is None:
                    worker = _Worker(self.time_limit, self.memory)
                    self._all.append(worker)
            try:
                yield worker
            finally:
                with self._lock:
                    if not self._closed:
                        self._idle.append(worker)


class _Worker:
    """One verifier process, started when it is first needed."""

    def __init__(self, time_limit: float, memory: int):
        self._arguments = (time_limit, memory)
        self._patience = 2 * time_limit + _GRACE
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, answer: str, gold: str) -> Verdict:
        """The verdict of the process; one that dies or stays silent is replaced, and its answer is refused."""
        process = self._process or self._start()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps([answer, gold]).encode() + b"\n")
            process.stdin.flush()
            fields = self._read(process, self._patience)
        except (OSError, ValueError):
            fields = None
        if fields is None:
            self.close()
            return Verdict(False, "the verifier process died")
        return Verdict(bool(fields["accepted"]), fields["reason"])

    def close(self) -> None:
        """Ends the process and its child: by closing their input, or by force if they are in the middle of something."""
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                assert pipe is not None
                pipe.close()
        try:
            process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        if importlib.util.find_spec("math_verify") is None:  # looked for, not imported: sympy stays out of this process
            require("math_verify", extra="tasks")
        script = Path(__file__).with_name("verifier_worker.py")
        process = subprocess.Popen(
            [sys.executable, "-P", str(script), *map(str, self._arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            start_new_session=True,  # Ctrl-C is for the user's program, which then closes the pool
        )
        self._process = process
        hello = self._read(process, _START)
        if not hello or not hello.get("ready"):
            self.close()
            cause = (hello or {}).get("reason", "it ended at once")
            raise RovrlError(f"the answer verifier did not start ({cause}): check `python -c 'import math_verify'`")
        return process

    def _read(self, process: subprocess.Popen[bytes], patience: float) -> dict | None:
        assert process.stdout is not None
        waiting = select.poll()  # not select(): a trainer may hold more than 1,024 open files
        waiting.register(process.stdout, select.POLLIN | select.POLLHUP)
        if not waiting.poll(1000 * patience):
            return None
        line = process.stdout.readline()
        return json.loads(line) if line else None


def default_workers() -> int:
    """The number set in `ROVRL_VERIFIER_WORKERS`, else one for each core this process may use, at most 8."""
    setting = os.environ.get(WORKERS_VARIABLE, "").strip()
    if setting:
        if not setting.isdigit() or int(setting) < 1:
            raise RovrlError(f"{WORKERS_VARIABLE} must be a whole number above zero, not {setting!r}")
        return int(setting)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, 8)


_shared: VerifierPool | None = None
_sharing = threading.Lock()


def shared_pool() -> VerifierPool:
    """The pool of this process, made at the first call and closed at exit."""
    global _shared
    with _sharing:
        if _shared is None:
            _shared = VerifierPool()
            atexit.register(_shared.close)
        return _shared


def _forget() -> None:
    """A forked copy must not talk into its parent's pipes."""
    global _shared, _sharing
    _shared, _sharing = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
