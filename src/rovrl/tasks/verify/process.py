"""One verifier process as its user sees it: a question in, a verdict out, no verdict ever for another question."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from rovrl.errors import RovrlError, require
from rovrl.tasks.verify.worker import CLOCK, KILLED

_GRACE = 20.0  # seconds beyond a child's own clock limit before the whole process is given up
_START = 120.0  # seconds a process may take to import sympy on a busy machine
_FAREWELL = 2.0  # seconds a process has to end once its input is closed


class Verdict(NamedTuple):
    """Whether an answer was accepted, and for a refusal without a comparison the reason.

    Not `judged`: the verifier failed, which says nothing about the answer.
    """

    accepted: bool
    reason: str = ""
    judged: bool = True


LOST = Verdict(False, KILLED, judged=False)
"""the process or its child was killed from outside: worth asking again"""


class VerifierProcess:
    """A process of `worker.py`, started when it is first asked. One thread asks and ends it; any thread may `drop`."""

    def __init__(self, time_limit: float, memory: int):
        self._arguments = (time_limit, memory)
        self._patience = CLOCK * time_limit + _GRACE
        self._numbers = itertools.count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._signalling = threading.Lock()  # a process is not waited for while a signal is on its way to its number
        self._listening = False  # a signal before the process has said hello would end it
        self._received = b""

    @property
    def pid(self) -> int | None:
        """The number of the running process."""
        process = self._process
        return process.pid if process else None

    def ask(self, answer: str, gold: str) -> Verdict:
        """The verdict on this question, or `LOST`; whatever goes wrong in between, the process is ended, not asked again."""
        try:
            if self._process is None:
                self._start()
            number = next(self._numbers)
            deadline = time.monotonic() + self._patience
            self._send(json.dumps([number, answer, gold]).encode() + b"\n", deadline)
            while reply := self._receive(deadline):
                if reply["number"] == number:
                    return Verdict(bool(reply["accepted"]), reply["reason"], bool(reply["judged"]))
        except (OSError, ValueError, KeyError, TypeError):
            pass
        except BaseException:
            self.end()
            raise
        self.end()
        return LOST

    def drop(self) -> None:
        """Has the question that is being judged, if any, end as `LOST`."""
        with self._signalling:
            if self._process is not None and self._listening:
                os.kill(self._process.pid, signal.SIGUSR1)

    def kill(self) -> None:
        """Ends the process by force, from any thread; it is `end` that waits for it."""
        with self._signalling, contextlib.suppress(ProcessLookupError, PermissionError):
            if self._process is not None:
                os.killpg(self._process.pid, signal.SIGKILL)

    def end(self) -> None:
        """Ends the process and its child: by closing their input, or by force if that is not enough."""
        with self._signalling:
            process, self._process, self._listening = self._process, None, False
        if process is None:
            return
        _close(process)
        try:
            process.wait(timeout=_FAREWELL)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def forget(self) -> None:
        """In a forked copy: closes the copies of the parent's pipes and leaves the parent's process alone."""
        process, self._process = self._process, None
        if process is not None:
            _close(process)
            process.returncode = 0  # not ours to wait for

    def _start(self) -> None:
        if importlib.util.find_spec("math_verify") is None:  # looked for, not imported: sympy stays out of this process
            require("math_verify", extra="tasks")
        self._received = b""
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__).with_name("worker.py")), *map(str, self._arguments)],
            bufsize=0,  # a forked copy must have nothing left to flush
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            start_new_session=True,  # Ctrl-C is for the user's program, which then closes the pool
        )
        for pipe in (self._process.stdin, self._process.stdout):
            os.set_blocking(pipe.fileno(), False)  # pyright: ignore[reportOptionalMemberAccess]
        hello = self._receive(time.monotonic() + _START)
        if not hello or not hello.get("ready"):
            process = self._process
            self.end()
            if process.returncode == -signal.SIGKILL:
                raise ChildProcessError("killed from outside while it started")
            cause = (hello or {}).get("reason", "it ended at once")
            raise RovrlError(f"the answer verifier did not start ({cause}): check `python -c 'import math_verify'`")
        self._listening = True

    def _send(self, line: bytes, deadline: float) -> None:
        pipe = self._process.stdin.fileno()  # pyright: ignore[reportOptionalMemberAccess]
        while line:
            if not _ready(pipe, select.POLLOUT, deadline):
                raise TimeoutError
            with contextlib.suppress(BlockingIOError):
                line = line[os.write(pipe, line) :]

    def _receive(self, deadline: float) -> dict[str, Any] | None:
        """The next line of the process; None if it died or stayed silent."""
        pipe = self._process.stdout.fileno()  # pyright: ignore[reportOptionalMemberAccess]
        while b"\n" not in self._received:
            if not _ready(pipe, select.POLLIN, deadline) or not (part := os.read(pipe, 65_536)):
                return None
            self._received += part
        line, _, self._received = self._received.partition(b"\n")
        return json.loads(line)


def _ready(pipe: int, event: int, deadline: float) -> bool:
    waiting = select.poll()  # not select(): a trainer may hold more than 1,024 open files
    waiting.register(pipe, event)
    return bool(waiting.poll(1000 * max(0.0, deadline - time.monotonic())))


def _close(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):
            assert pipe is not None
            pipe.close()
