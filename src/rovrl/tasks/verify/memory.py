"""Verdicts remembered between calls: comparisons for every pool, refusals by a limit for pools with the same limits."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence

from rovrl.tasks.forks import aware_of_forks
from rovrl.tasks.verify.pool import VerifierPool
from rovrl.tasks.verify.process import Verdict

Pair = tuple[str, str]


class Memory:
    """The last `size` verdicts. What the verifier failed to judge is not among them."""

    def __init__(self, size: int = 50_000):
        self.size = size
        self._verdicts: OrderedDict[Hashable, Verdict] = OrderedDict()
        self._lock = threading.Lock()
        aware_of_forks(self)

    def recall(self, pair: Pair, pool: VerifierPool) -> Verdict | None:
        """The verdict on (answer, gold), if it is remembered."""
        with self._lock:
            for key in (pair, _with_limits(pair, pool)):
                if key in self._verdicts:
                    self._verdicts.move_to_end(key)
                    return self._verdicts[key]
        return None

    def remember(self, pairs: Sequence[Pair], verdicts: Sequence[Verdict], pool: VerifierPool) -> None:
        """Keeps what was judged: a hostile answer costs its time limit once, not every time."""
        with self._lock:
            for pair, verdict in zip(pairs, verdicts, strict=True):
                if verdict.judged:
                    self._verdicts[_with_limits(pair, pool) if verdict.reason else pair] = verdict
            while len(self._verdicts) > self.size:
                self._verdicts.popitem(last=False)

    def clear(self) -> None:
        """Forgets everything."""
        with self._lock:
            self._verdicts.clear()

    def start_afresh(self) -> None:
        """In a forked copy: another thread may have been writing, so nothing is kept but what is whole."""
        self._lock, self._verdicts = threading.Lock(), OrderedDict()


def _with_limits(pair: Pair, pool: VerifierPool) -> Hashable:
    return (*pair, pool.time_limit, pool.memory)
