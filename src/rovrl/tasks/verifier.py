"""The verifier's program: reads questions, has math-verify judge them in forked judges with limits, replies; JSON line by line.

Run by file (`python -P verifier.py JUDGES CPU_SECONDS BYTES`), so that it imports math-verify and not torch. The program forks,
hands out and waits, in one thread. A judge does the algebra under the kernel's own limits, which hold inside C code too:
processor time (ITIMER_PROF), clock time (ITIMER_REAL) and address space (RLIMIT_AS). It replies or dies, and what it died of is
the refusal: a limit costs a fork, not an import of sympy. A question is [number, answer, gold], and every reply repeats the
number; [number] drops a question. The end of the input ends everything at any moment; a judge whose program is killed ends
with its question.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import resource
import selectors
import signal
import sys
from collections.abc import Callable
from functools import lru_cache

QUESTIONS_PER_JUDGE = 2_000  # sympy's caches grow; a fresh fork forgets them
CLOCK = 10  # clock seconds per second of processor time: a busy machine must not refuse a right answer
KILLED, SLOW, CRASH = "the verifier was killed", "over the clock limit", "the verifier crashed"
OUT_OF_MEMORY, TOO_DEEP = 70, 71  # exit codes
OBITUARIES = {
    -signal.SIGPROF: "over the time limit",
    -signal.SIGXCPU: "over the time limit",
    OUT_OF_MEMORY: "over the memory limit",
    TOO_DEEP: "nested too deeply",
    -signal.SIGALRM: SLOW,
    -signal.SIGKILL: KILLED,
    -signal.SIGTERM: KILLED,
}
"""The reason of a refusal by what ended the judge; the first four and crashes are the answer's own doing."""


class Judge:
    """A forked copy of this program that judges one question at a time; its death closes `replies`."""

    def __init__(self, cpu_seconds: float, memory: int):
        questions, self._ask = os.pipe()
        self.replies, told = os.pipe()
        self.asked: int | None = None  # the number of its question
        self.left = QUESTIONS_PER_JUDGE
        self.pid = os.fork()
        if self.pid == 0:
            with contextlib.suppress(BaseException):
                os.setsid()  # Linux shares a busy machine among sessions: judges of one would have one share together
                os.dup2(questions, 0)
                os.dup2(told, 3)
                os.closerange(
                    4, os.sysconf("SC_OPEN_MAX")
                )  # copies of pipes would hide the death of those who own them
                with_room(lambda: serve(cpu_seconds, memory))
            os._exit(1)
        os.close(questions)
        os.close(told)

    def ask(self, number: int, line: bytes) -> None:
        """Hands over a question."""
        self.asked, self.left = number, self.left - 1
        with contextlib.suppress(BrokenPipeError):  # dead already: the other pipe says so, too
            while line:
                line = line[os.write(self._ask, line) :]

    def end(self) -> int:
        """Kills it and returns what ended it: an exit code or minus the number of a signal, which for a dead one is its own."""
        os.close(self._ask)
        os.close(self.replies)
        os.kill(self.pid, signal.SIGKILL)  # not yet waited for, so the number is still its own
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class Court:
    """The judges, and the questions that wait for one."""

    def __init__(self, size: int, cpu_seconds: float, memory: int, replies: int):
        self.size, self.limits, self.replies = size, (cpu_seconds, memory), replies
        self.waiting: dict[int, bytes] = {}
        self.judges: list[Judge] = []
        self.selector = selectors.DefaultSelector()
        self.selector.register(0, selectors.EVENT_READ)

    def sit(self) -> None:
        """Returns when the input has ended."""
        unread = b""
        while True:
            for key, _ in self.selector.select():
                if key.data is not None:
                    self.hear(key.data)
                elif part := os.read(0, 1 << 16):
                    *lines, unread = (unread + part).split(b"\n")
                    for line in lines:
                        self.note(line)
                else:
                    return
            self.hand_out()

    def note(self, line: bytes) -> None:
        """Queues a question, or drops one; the judge of a dropped one is killed."""
        number, *question = json.loads(line)
        if question:
            self.waiting[number] = line + b"\n"
        elif self.waiting.pop(number, None) is None:
            for judge in self.judges:
                if judge.asked == number:
                    self.retire(judge)

    def hear(self, judge: Judge) -> None:
        """Passes a judge's reply on, or the reason of its death."""
        number, reply = judge.asked, os.read(judge.replies, 4096)
        judge.asked = None
        if reply and judge.left:
            os.write(self.replies, reply)
            return
        status = self.retire(judge)
        if reply:
            os.write(self.replies, reply)
        elif number is not None:
            reason = OBITUARIES.get(status, CRASH)
            tell(self.replies, number=number, accepted=False, reason=reason, judged=reason not in (KILLED, SLOW))

    def hand_out(self) -> None:
        """Gives every free judge a question, forking those that are missing."""
        while self.waiting:
            free = next((judge for judge in self.judges if judge.asked is None), None)
            if free is None:
                if len(self.judges) == self.size:
                    return
                free = Judge(*self.limits)
                self.judges.append(free)
                self.selector.register(free.replies, selectors.EVENT_READ, free)
            number = next(iter(self.waiting))
            free.ask(number, self.waiting.pop(number))

    def retire(self, judge: Judge) -> int:
        """Ends a judge and returns what ended it."""
        self.judges.remove(judge)
        self.selector.unregister(judge.replies)
        return judge.end()


def main(judges: int, cpu_seconds: float, memory: int) -> None:
    """Serves until the input ends. Standard output carries replies only: whatever a library prints goes nowhere."""
    replies = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    logging.disable(logging.CRITICAL)
    try:
        judge(r"\boxed{\frac{1}{2}}", "0.5")  # imports sympy and builds its parsers once, for every judge
    except Exception as error:  # the reader turns this into a sentence
        tell(replies, ready=False, reason=f"{type(error).__name__}: {error}")
        return
    gc.collect()
    gc.freeze()  # what sympy keeps for good is not looked through again, nor copied into every judge by looking
    tell(replies, ready=True)
    court = Court(judges, cpu_seconds, memory, replies)
    court.sit()
    for one in court.judges:
        one.end()


def serve(cpu_seconds: float, memory: int) -> None:
    """A judge's life: questions from 0, replies to 3, until the input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for clock in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(clock, signal.SIG_DFL)  # death, not an exception that a library may catch
    for line in os.fdopen(0, "rb", closefd=False):
        number, answer, gold = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
        signal.setitimer(signal.ITIMER_REAL, CLOCK * cpu_seconds)
        try:
            accepted = judge(answer, gold)
        except MemoryError:
            os._exit(OUT_OF_MEMORY)
        except RecursionError:
            os._exit(TOO_DEEP)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        tell(3, number=number, accepted=accepted, reason="", judged=True)
    os._exit(0)


def with_room(work: Callable[[], None]) -> None:
    """Does `work` with half a megabyte of room for Python's frames.

    CPython maps them in pieces of 16 KB and unmaps a piece as soon as it is empty. A parser that goes in and out at the edge of
    one has the kernel map 260 of them for each answer, which takes a quarter of its time. This frame is too large for such a
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


def tell(pipe: int, **fields: object) -> None:
    """Writes one line of JSON; it is shorter than a pipe's atomic write, so it is there whole or not at all."""
    os.write(pipe, json.dumps(fields).encode() + b"\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
