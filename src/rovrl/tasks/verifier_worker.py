"""The verifier process: reads one answer per line, has math-verify judge it in a child with limits, replies with one line.

Run by file (`python -P verifier_worker.py CPU_SECONDS BYTES`), so that it imports math-verify and not torch. The parent part
only forks and waits; the child does the algebra under the kernel's own limits, which hold inside C code too: processor time
(ITIMER_PROF), clock time (ITIMER_REAL) and address space (RLIMIT_AS). A dead child costs one fork, not an import of sympy.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import resource
import signal
import sys
from typing import BinaryIO

ITEMS_PER_CHILD = 2_000  # sympy's caches grow; a fresh fork forgets them
DONE, SERVED = 0, 3  # exit status of a child: no more input; replied, and wants to be replaced
TIME, MEMORY, CRASH = "over the time limit", "over the memory limit", "the verifier crashed"


def main(cpu_seconds: float, memory: int) -> None:
    """Serves until the input ends. Standard output carries replies only: whatever a library prints goes nowhere."""
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    logging.disable(logging.CRITICAL)
    try:
        judge(r"\boxed{\frac{1}{2}}", "0.5")  # imports sympy and builds its parsers once, for every child
    except Exception as error:  # the reader turns this into a sentence
        reply(replies, ready=False, reason=f"{type(error).__name__}: {error}")
        return
    reply(replies, ready=True)
    while True:
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                os._exit(serve(sys.stdin.buffer, replies, cpu_seconds, memory))
            os._exit(1)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == DONE:
            return
        if status != SERVED:
            killed_by_clock = status in (-signal.SIGPROF, -signal.SIGALRM, -signal.SIGXCPU)
            reply(replies, accepted=False, reason=TIME if killed_by_clock else CRASH)


def serve(requests: BinaryIO, replies: BinaryIO, cpu_seconds: float, memory: int) -> int:
    """The child: one request, one reply, until the input ends or a fresh child is better."""
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for clock in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(clock, signal.SIG_DFL)  # death, not an exception that a library may catch
    for _ in range(ITEMS_PER_CHILD):
        line = requests.readline()
        if not line:
            return DONE
        answer, gold = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
        signal.setitimer(signal.ITIMER_REAL, 2 * cpu_seconds)
        try:
            accepted, reason = judge(answer, gold), ""
        except MemoryError:
            accepted, reason = False, MEMORY
        except RecursionError:
            accepted, reason = False, "nested too deeply"
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        reply(replies, accepted=accepted, reason=reason)
        if reason:
            return SERVED
    return SERVED


def judge(answer: str, gold: str) -> bool:
    """Whether math-verify finds `answer` equal to `gold`; its own alarms are off, the kernel's limits stand in for them."""
    from math_verify import parse, verify

    golds = parse(f"\\boxed{{{gold}}}", parsing_timeout=0)
    given = parse(answer, parsing_timeout=0)
    return bool(golds and given and verify(golds, given, timeout_seconds=0))


def reply(replies: BinaryIO, **fields: object) -> None:
    """Writes one line of JSON."""
    replies.write(json.dumps(fields).encode() + b"\n")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
