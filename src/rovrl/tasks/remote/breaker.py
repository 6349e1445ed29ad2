"""A circuit breaker: a server that fails again and again is left alone, but for one trial request now and then."""

from __future__ import annotations

import asyncio
import time


class Breaker:
    """Closed, requests pass. After `threshold` failures in a row it opens: one trial at a time, at growing intervals.

    One trial that succeeds closes it. All methods are called in one event loop.
    """

    def __init__(self, threshold: int = 8, pause: float = 1.0, longest: float = 30.0):
        self.threshold, self.pause, self.longest = threshold, pause, longest
        self.openings = 0
        self._failures = 0
        self._interval = pause
        self._next_trial = 0.0
        self._trying = False

    @property
    def is_open(self) -> bool:
        """Whether requests are being held back."""
        return self._failures >= self.threshold

    async def admit(self) -> None:
        """Returns when a request may be sent; to be followed by `report` or `withdraw`."""
        while self.is_open:
            wait = self._next_trial - time.monotonic()
            if wait <= 0 and not self._trying:
                self._trying = True
                return
            await asyncio.sleep(min(max(wait, 0.05), 0.5))

    def report(self, answered: bool) -> None:
        """What became of an admitted request."""
        self._trying = False
        if answered:
            self._failures, self._interval = 0, self.pause
            return
        self._failures += 1
        if self._failures == self.threshold:
            self.openings += 1
        if self.is_open:
            self._next_trial = time.monotonic() + self._interval
            self._interval = min(2 * self._interval, self.longest)

    def withdraw(self) -> None:
        """The caller gave up the admitted request for its own reasons, which says nothing about the server."""
        self._trying = False
