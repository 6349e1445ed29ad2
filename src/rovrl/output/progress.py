"""Progress of long work, on a terminal that has one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rovrl.errors import require

Progress = Callable[[int, int], None]
"""(done, total) -> None."""


@contextmanager
def progress_bar(title: str) -> Iterator[Progress]:
    """A bar with the remaining time on standard error; silent where that is not a terminal."""
    rich = require("rich.progress", "report")
    console = require("rich.console", "report").Console(stderr=True)
    columns = [
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TimeRemainingColumn(),
    ]
    with rich.Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
