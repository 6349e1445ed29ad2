"""How far long work has come: a bar on a terminal, a plain line now and then elsewhere; one signature for all who report it."""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TextIO

EVERY = 30.0
"""Seconds between plain lines; work that is shorter writes none."""


class Progress(Protocol):
    """Called with (done, total) after each piece of work, and with the name of the stage where there are several."""

    def __call__(self, done: int, total: int, stage: str = "", /) -> None: ...  # noqa: D102


def silent(done: int, total: int, stage: str = "", /) -> None:
    """Reports nothing."""


def counted(progress: Progress, total: int, stage: str = "") -> Callable[[int], None]:
    """A function for those who only know how many more are done: it adds them up for `progress`."""
    done = 0

    def more(count: int) -> None:
        nonlocal done
        done += count
        progress(done, total, stage)

    return more


@contextmanager
def progress_bar(title: str) -> Iterator[Progress]:
    """A bar with the time left on standard error, gone at the end; plain lines where that is not a terminal."""
    with bars() as shown:
        yield Lines(title) if shown is None else _Bar(shown, title)


@contextmanager
def bars(stream: TextIO | None = None) -> Iterator[Any]:
    """rich's display of several bars, each task with a `note`; None where `stream` is not a terminal or rich is missing."""
    if not (stream or sys.stderr).isatty() and not os.environ.get(
        "FORCE_COLOR"
    ):  # importing rich takes longer than small work
        yield None
        return
    try:
        rich, console = (importlib.import_module(f"rich.{name}") for name in ("progress", "console"))
    except ModuleNotFoundError:
        yield None
        return
    screen = console.Console(file=stream or sys.stderr)
    if not screen.is_terminal:
        yield None
        return
    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TimeRemainingColumn(),
        rich.TextColumn("left,"),
        rich.TimeElapsedColumn(),
        rich.TextColumn("so far  {task.fields[note]}"),
    )
    with rich.Progress(*columns, console=screen, speed_estimate_period=60, transient=True) as shown:
        yield shown


class Lines:
    """Progress as plain lines on standard error, one every `EVERY` seconds."""

    def __init__(self, title: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.title, self.clock, self.last = title, clock, clock()

    def __call__(self, done: int, total: int, stage: str = "", /) -> None:
        """Writes a line if it is time for one."""
        now = self.clock()
        if now - self.last >= EVERY:
            self.last = now
            print(f"{stage or self.title}: {done} of {total}", file=sys.stderr, flush=True)


class _Bar:
    """Progress as one bar, which appears with the first report."""

    def __init__(self, shown: Any, title: str) -> None:
        self.shown, self.title = shown, title
        self.task = shown.add_task(title, total=None, visible=False, note="")

    def __call__(self, done: int, total: int, stage: str = "", /) -> None:
        self.shown.update(
            self.task, completed=done, total=total, visible=True, description=stage or self.title, refresh=done == total
        )
