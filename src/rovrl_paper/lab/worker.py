"""A worker process: takes jobs as JSON lines on standard input, trains them one after another, and reports what happens.

It imports TRL once for many runs, uses one thread, and ends as soon as its parent is gone (standard input closes), so that
no orphan goes on writing into a run that someone has resumed.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from rovrl.errors import RovrlError

PATIENCE = 15.0
"""Seconds to wait for a run's lock: a worker whose parent was killed a moment ago may still be ending."""


def main() -> None:
    """Serves jobs until standard input closes."""
    events = _private_output()
    jobs: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_read_jobs, args=(jobs,), daemon=True).start()
    warnings.filterwarnings("ignore")  # of the engines; ours go through events
    while True:
        _serve(jobs.get(), events)


def _serve(order: dict[str, Any], events: TextIO) -> None:
    directory = Path(order["directory"])

    def tell(event: dict[str, Any]) -> None:
        events.write(json.dumps({"directory": order["directory"]} | event) + "\n")
        events.flush()

    try:
        from rovrl_paper.lab.job import Job
        from rovrl_paper.lab.run import run

        with only_writer(directory), alarms(tell):
            run(Job.from_dict(order["job"]), directory, Path(order["warm"]), tell)
        tell({"done": True})
    except RovrlError as error:
        tell({"failed": str(error)})
    except Exception as error:
        traceback.print_exc()
        tell({"failed": f"{directory.name}: {type(error).__name__}: {error} (the whole message is in {order['log']})"})


@contextmanager
def alarms(tell: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    """What our own logger warns of (a weight that hides most of what the policy does) reaches the terminal too."""
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: tell({"warning": record.getMessage()})
    both = (handler, logging.StreamHandler())
    logger = logging.getLogger("rovrl")
    for each in both:
        logger.addHandler(each)
    try:
        yield
    finally:
        for each in both:
            logger.removeHandler(each)


@contextmanager
def only_writer(directory: Path, patience: float = PATIENCE) -> Iterator[None]:
    """Holds the run's lock; a RovrlError if another process trains in the same directory."""
    import fcntl

    with open(directory / ".lock", "w") as lock:
        until = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > until:
                    raise RovrlError(
                        f"another process is training in {directory}; wait for it or choose another --out"
                    ) from None
                time.sleep(0.1)
        yield


def _private_output() -> TextIO:
    """Standard output for events alone: whatever a library prints goes to the log instead."""
    own = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return own


def _read_jobs(jobs: queue.Queue[dict[str, Any]]) -> None:
    for line in sys.stdin:
        jobs.put(json.loads(line))
    os._exit(0)


if __name__ == "__main__":
    main()
