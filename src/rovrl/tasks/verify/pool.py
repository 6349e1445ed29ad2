"""Verdicts on untrusted answers: worker processes with time and memory limits, replaced when they die.

Safe from any thread, in forked copies, and wherever an interruption strikes: a caller only queues questions and waits for
verdicts, and each process is talked to by a thread of its own, which no signal reaches. The processes end with the
interpreter, also when it is killed (their input closes).
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence

from rovrl.errors import RovrlError
from rovrl.tasks.forks import aware_of_forks
from rovrl.tasks.verify.crew import Batch, Crew
from rovrl.tasks.verify.process import Verdict

WORKERS_VARIABLE = "ROVRL_VERIFIER_WORKERS"


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
        self._crew = Crew(self.workers, time_limit, memory)
        self._end = weakref.finalize(self, self._crew.end)  # also at exit
        aware_of_forks(self)

    def verify(self, pairs: Sequence[tuple[str, str]], *, on_done: Callable[[], object] | None = None) -> list[Verdict]:
        """One verdict per (answer, gold) pair, in order; `on_done` is called after each, in the caller's thread.

        An exception that arrives here (Ctrl-C, an alarm) leaves at once; questions that were under way are dropped.
        """
        crew, batch = self._crew, Batch()
        verdicts: list[Verdict] = [Verdict(False)] * len(pairs)
        try:
            crew.ask(batch, pairs)
            for _ in pairs:
                index, verdict = crew.next_verdict(batch)
                verdicts[index] = verdict
                if on_done is not None:
                    on_done()
        except BaseException:
            crew.drop(batch)
            raise
        return verdicts

    def close(self) -> None:
        """Ends the workers; asking again afterwards is an error."""
        self._crew.end()

    def pids(self) -> list[int]:
        """The numbers of the running worker processes."""
        return self._crew.pids()

    def start_afresh(self) -> None:
        """In a forked copy: workers of its own, and its parent's left alone."""
        self._end.detach()
        self._crew = self._crew.in_a_copy()
        self._end = weakref.finalize(self, self._crew.end)

    def __enter__(self) -> VerifierPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def default_workers() -> int:
    """The number set in `ROVRL_VERIFIER_WORKERS`, else one for each core this process may use, at most 8."""
    setting = os.environ.get(WORKERS_VARIABLE, "").strip()
    if setting:
        if not setting.isdigit() or int(setting) < 1:
            raise RovrlError(f"{WORKERS_VARIABLE} must be a whole number above zero, not {setting!r}")
        return int(setting)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, 8)


class _Shared:
    """The pool of this process, made when it is first wanted."""

    def __init__(self):
        self.pool: VerifierPool | None = None
        self.start_afresh()
        aware_of_forks(self)

    def start_afresh(self) -> None:
        """A copy's lock may be held by a thread that is not there; the pool looks after itself."""
        self.lock = threading.Lock()


_shared = _Shared()


def shared_pool() -> VerifierPool:
    """The pool of this process, made at the first call and closed at exit."""
    with _shared.lock:
        if _shared.pool is None:
            _shared.pool = VerifierPool()
        return _shared.pool
