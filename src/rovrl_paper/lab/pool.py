"""Runs jobs in worker processes, each on one thread, and shows how far they are."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from rovrl.errors import RovrlError
from rovrl.output.files import read_lines
from rovrl.output.progress import bars
from rovrl_paper.lab.job import Job, finished, prepare
from rovrl_paper.lab.models.warmup import WarmUp

Starts = Mapping[tuple[str, WarmUp], Path]


class Order(NamedTuple):
    """A job and where it is trained."""

    job: Job
    directory: Path


def run_all(
    orders: Sequence[Order],
    warm: Starts,
    workers: int,
    resume: bool,
    title: str = "",
    after_each: Callable[[], object] = lambda: None,
) -> None:
    """Trains every order that is not finished yet; returns when all are, or raises the failures' sentences.

    `warm` maps what decides a job's first model (`Job.start`) to its directory; `after_each` is called when a run is
    finished. A failure does not stop the other runs: they are finished first.
    """
    waiting = [order for order in orders if not finished(order.directory)]
    for order in waiting:
        prepare(order.job, order.directory, resume)
    failures: list[str] = []
    with _display(orders, title) as display, _Pool(min(workers, len(waiting)), orders[0].directory.parent) as pool:
        for event in pool.work(waiting, warm):
            display.tell(event)
            if "failed" in event:
                failures.append(event["failed"])
            elif "done" in event:
                after_each()
    if failures:
        raise RovrlError("; ".join(dict.fromkeys(failures)))


class _Pool:
    """Worker processes that take the next order as soon as they are free."""

    def __init__(self, size: int, log_directory: Path) -> None:
        self.size, self.log = size, log_directory / "workers.log"
        self.events: queue.Queue[tuple[int, dict[str, Any] | None]] = queue.Queue()
        self.processes: list[subprocess.Popen[str]] = []

    def __enter__(self) -> _Pool:
        environment = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
        with open(self.log, "a") as log:
            for _ in range(self.size):
                self.processes.append(
                    subprocess.Popen(
                        [sys.executable, "-m", "rovrl_paper.lab.worker"],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=log,
                        text=True,
                        env=environment,
                    )
                )
        for index, process in enumerate(self.processes):
            threading.Thread(target=self._listen, args=(index, process), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            if process.stdin:
                with suppress(BrokenPipeError):
                    process.stdin.close()
        for process in self.processes:
            process.wait()

    def work(self, orders: Sequence[Order], warm: Starts) -> Iterator[dict[str, Any]]:
        """Hands out the orders and yields the workers' events until all are done."""
        waiting, busy = list(reversed(orders)), {}
        for index in range(self.size):
            busy[index] = self._send(index, waiting.pop(), warm)
        while busy:
            index, event = self.events.get()
            if event is None:
                if index in busy:
                    name = busy.pop(index).directory
                    yield {"directory": str(name), "failed": f"the worker for {name} {self._end(index)}"}
                continue
            yield event
            if "done" in event or "failed" in event:
                del busy[index]
                if waiting:
                    busy[index] = self._send(index, waiting.pop(), warm)

    def _end(self, index: int) -> str:
        status = self.processes[index].wait()
        if status < 0:
            return f"was ended by {signal.Signals(-status).name} from outside; go on with --resume"
        return f"ended with status {status}; see {self.log}"

    def _send(self, index: int, order: Order, warm: Starts) -> Order:
        message = {
            "job": order.job.to_dict(),
            "directory": str(order.directory),
            "warm": str(warm[order.job.start]),
            "log": str(self.log),
        }
        pipe = self.processes[index].stdin
        assert pipe is not None
        with suppress(BrokenPipeError):  # its listener reports a worker that is gone
            pipe.write(json.dumps(message) + "\n")
            pipe.flush()
        return order

    def _listen(self, index: int, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                self.events.put((index, json.loads(line)))
        self.events.put((index, None))


class _Bars:
    """One line per run that is under way: how far, how accurate, how long to go."""

    def __init__(self, progress: Any, orders: Sequence[Order], title: str) -> None:
        self.progress, self.bars = progress, {}
        steps = sum(order.job.steps for order in orders)
        self.total = progress.add_task(title or "all runs", total=steps, note="")
        self.before = {str(o.directory): _steps_done(o) for o in orders}
        self.jobs = {str(order.directory): order.job for order in orders}
        progress.update(self.total, completed=sum(self.before.values()))

    def tell(self, event: dict[str, Any]) -> None:
        """Shows one event of a worker."""
        name = event["directory"]
        if name not in self.bars:
            self.bars[name] = self.progress.add_task(
                f"  {Path(name).name}", total=self.jobs[name].steps, completed=self.before[name], note=""
            )
        if "steps" in event:
            self.progress.update(self.bars[name], completed=event["step"])
            self.progress.advance(self.total, max(0, event["step"] - self.before[name]))
            self.before[name] = max(self.before[name], event["step"])
        if "accuracy" in event:
            self.progress.update(self.bars[name], note=f"accuracy {event['accuracy']:.3f}")
        if "warning" in event:
            self.progress.console.print(f"{Path(name).name}: {event['warning']}", markup=False)
        if ("done" in event or "failed" in event) and len(self.jobs) > 4:
            self.progress.update(self.bars[name], visible=False)


class _Lines:
    """The same for an output that is not a terminal: one plain line per evaluation."""

    def tell(self, event: dict[str, Any]) -> None:
        """Prints evaluations, endings and failures."""
        name = Path(event["directory"]).name
        if "accuracy" in event:
            print(
                f"{time.strftime('%H:%M:%S')} {name} step {event['step']}: accuracy {event['accuracy']:.3f}", flush=True
            )
        elif "warning" in event:
            print(f"{time.strftime('%H:%M:%S')} {name}: {event['warning']}", flush=True)
        elif "failed" in event:
            print(f"{time.strftime('%H:%M:%S')} {name} failed: {event['failed']}", flush=True)


@contextmanager
def _display(orders: Sequence[Order], title: str) -> Iterator[_Bars | _Lines]:
    with bars(sys.stdout) as progress:
        yield _Lines() if progress is None else _Bars(progress, orders, title)


def _steps_done(order: Order) -> int:
    if finished(order.directory):
        return order.job.steps
    return max((row["step"] for row in read_lines(order.directory / "metrics.jsonl")), default=0)
