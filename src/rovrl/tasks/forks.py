"""Forks: locks, threads, pipes and connections belong to the process that made them; its forked copies start afresh."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class ForkAware(Protocol):
    """Something with a method for the moment after a fork, in the copy, where only the forking thread lives on."""

    def start_afresh(self) -> None:
        """Replaces every lock, thread, pipe and connection, without a word to the parent's."""
        ...


_aware: weakref.WeakSet[ForkAware] = weakref.WeakSet()


def aware_of_forks(thing: ForkAware) -> None:
    """Has `thing.start_afresh()` called in every forked copy of this process, as long as `thing` lives."""
    _aware.add(thing)


def _after_fork() -> None:
    for thing in list(_aware):
        thing.start_afresh()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
