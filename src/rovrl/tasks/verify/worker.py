"""The verifier process: reads one question per line, has math-verify judge it in a child with limits, replies with one line.

Run by file (`python -P worker.py CPU_SECONDS BYTES`), so that it imports math-verify and not torch. This process only forks,
passes lines on and waits; the child does the algebra under the kernel's own limits, which hold inside C code too: processor
time (ITIMER_PROF), clock time (ITIMER_REAL) and address space (RLIMIT_AS). A dead child costs one fork, not an import of sympy.

Every question has a number and every reply repeats it. SIGUSR1 drops the question that is being judged; the end of the input
ends both processes at any moment.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import resource
import select
import signal
import sys
from collections.abc import Callable
from functools import lru_cache

QUESTIONS_PER_CHILD = 2_000  # sympy's caches grow; a fresh fork forgets them
CLOCK = 10  # clock seconds per second of processor time: a busy machine must not refuse a right answer
TIME, MEMORY, CRASH = "over the time limit", "over the memory limit", "the verifier crashed"
DEPTH, SLOW, KILLED = "nested too deeply", "over the clock limit", "the verifier was killed"


class Child:
    """A forked judge: questions go in through one pipe, replies come out of another, and its death closes the latter."""

    def __init__(self, cpu_seconds: float, memory: int, inherited: tuple[int, ...]):
        questions, self._ask = os.pipe()
        self._told, replies = os.pipe()
        self.left = QUESTIONS_PER_CHILD
        self.pid = os.fork()
        if self.pid == 0:
            with contextlib.suppress(BaseException):
                for pipe in (self._ask, self._told, *inherited):
                    os.close(pipe)  # an open copy here would hide the death of the process that owns it
                with_room(lambda: serve(questions, replies, cpu_seconds, memory))
            os._exit(0)
        os.close(questions)
        os.close(replies)

    def judge(self, question: bytes) -> bytes | None:
        """The reply, b"" if the child died instead, None if this process's input ended first."""
        self.left -= 1
        with contextlib.suppress(BrokenPipeError):  # dead already: the other pipe says so, too
            while question:
                question = question[os.write(self._ask, question) :]
        reply = b""
        while not reply.endswith(b"\n"):
            if not readable(self._told):
                return None
            part = os.read(self._told, 65_536)
            if not part:
                return b""
            reply += part
        return reply

    def end(self) -> int:
        """Kills the child and returns what ended it: 0, or minus the number of a signal, which for a dead one is its own."""
        os.close(self._ask)
        os.close(self._told)
        os.kill(self.pid, signal.SIGKILL)  # not yet waited for, so the number is still its own
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def main(cpu_seconds: float, memory: int) -> None:
    """Serves until the input ends. Standard output carries replies only: whatever a library prints goes nowhere."""
    replies = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    logging.disable(logging.CRITICAL)
    try:
        judge(r"\boxed{\frac{1}{2}}", "0.5")  # imports sympy and builds its parsers once, for every child
    except Exception as error:  # the reader turns this into a sentence
        tell(replies, ready=False, reason=f"{type(error).__name__}: {error}")
        return
    gc.collect()
    gc.freeze()  # what sympy keeps for good is not looked through again, nor copied into every child by looking
    busy: list[int] = []  # the child that is judging: what SIGUSR1 kills
    mine = os.getpid()
    signal.signal(signal.SIGUSR1, lambda *_: [os.kill(pid, signal.SIGKILL) for pid in busy if os.getpid() == mine])
    tell(replies, ready=True)
    child = None
    for question in iter(sys.stdin.buffer.readline, b""):
        child = child or Child(cpu_seconds, memory, (0, replies))
        busy.append(child.pid)
        reply = child.judge(question)
        busy.clear()  # before the child is waited for: its number may be another process's afterwards
        if reply is None:
            break
        if reply and child.left:
            tell_line(replies, reply)
            continue
        status, child = child.end(), None
        if reply:
            tell_line(replies, reply)
        else:
            tell(replies, number=json.loads(question)[0], accepted=False, **obituary(status))
    if child:
        child.end()


def obituary(status: int) -> dict[str, object]:
    """The reason of a refusal by the signal that ended a child; only limits and crashes are the answer's own doing."""
    if status in (-signal.SIGPROF, -signal.SIGXCPU):
        return {"reason": TIME, "judged": True}
    if status == -signal.SIGALRM:
        return {"reason": SLOW, "judged": False}
    if status == -signal.SIGKILL:
        return {"reason": KILLED, "judged": False}
    return {"reason": CRASH, "judged": True}


def serve(questions: int, replies: int, cpu_seconds: float, memory: int) -> None:
    """The child: one question, one reply, until its input ends or a refusal may have left something behind."""
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    for clock in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(clock, signal.SIG_DFL)  # death, not an exception that a library may catch
    for line in iter(os.fdopen(questions, "rb").readline, b""):
        number, answer, gold = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
        signal.setitimer(signal.ITIMER_REAL, CLOCK * cpu_seconds)
        try:
            accepted, reason = judge(answer, gold), ""
        except MemoryError:
            accepted, reason = False, MEMORY
        except RecursionError:
            accepted, reason = False, DEPTH
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        tell(replies, number=number, accepted=accepted, reason=reason, judged=True)
        if reason:
            return


def with_room(work: Callable[[], None]) -> None:
    """Does `work` with half a megabyte of room for Python's frames.

    CPython maps them in pieces of 16 KB and unmaps a piece as soon as it is empty. A parser that goes in and out at the edge of
    one had the kernel map 260 of them for each answer, which took a quarter of its time. This frame is too large for such a
    piece: it gets one of its own, of a power of two, and the rest of that is room for the frames above it.
    """
    work()


ROOM = 66_000  # 8 bytes each: just above 512 KB, so that the piece has 1 MB
with_room.__code__ = with_room.__code__.replace(co_stacksize=ROOM)


def judge(answer: str, gold: str) -> bool:
    """Whether math-verify finds `answer` equal to `gold`; its own alarms are off, the kernel's limits stand in for them."""
    from math_verify import parse, verify

    golds = parsed_gold(gold)
    given = parse(answer, parsing_timeout=0)
    return bool(golds and given and verify(golds, given, timeout_seconds=0))


@lru_cache(maxsize=256)
def parsed_gold(gold: str) -> list:
    """What math-verify reads in a right answer; the responses of a group share it."""
    from math_verify import parse

    return parse(f"\\boxed{{{gold}}}", parsing_timeout=0)


def readable(pipe: int) -> bool:
    """Waits until `pipe` can be read; False if standard input hung up first."""
    waiting = select.poll()
    waiting.register(pipe, select.POLLIN)
    waiting.register(0, 0)  # a hang-up is reported unasked, a waiting question is not
    return any(ready == pipe for ready, _ in waiting.poll())


def tell(pipe: int, **fields: object) -> None:
    """Writes one line of JSON."""
    tell_line(pipe, json.dumps(fields).encode() + b"\n")


def tell_line(pipe: int, line: bytes) -> None:
    """Writes a line; it is shorter than a pipe's atomic write, so it is there whole or not at all."""
    os.write(pipe, line)


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
