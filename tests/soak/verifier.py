"""The verifier under random interruptions, forks, killed workers and hostile answers: no verdict of another question."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path
from typing import NoReturn

import psutil

from rovrl.tasks.verify import VerifierPool

TOWER = (r"\boxed{10^{10^{10}}}", "0.25")
NAMED = [
    (rf"\boxed{{\frac{{{a}}}{{{b}}}}}", "0.25", 4 * a == b) for a in range(1, 9) for b in (4, 5, 8, 12, 16, 20, 28)
]

FAILED = 100


class Struck(Exception):
    """Raised by the alarm."""


def run(interruptions: int, seed: int = 0) -> dict[str, float]:
    """How many verdicts were wrong, and what was left of the processes afterwards.

    One fork, one killed worker and one hostile answer for every 250 interruptions; a pool of two workers, or of one if the seed
    is odd.
    """
    draw = random.Random(seed)
    few = max(interruptions // 250, 1)
    events = ["alarm"] * interruptions + ["fork", "kill", "hostile"] * few
    draw.shuffle(events)
    before = signal.signal(signal.SIGALRM, _strike)
    told = {"interrupted": 0, "verdicts": 0, "not judged": 0, "wrong": 0}
    try:
        with VerifierPool(2 - seed % 2, time_limit=1.0) as pool:
            _check(pool, draw, told, 2)
            for event in events:
                EVENTS[event](pool, draw, told)
                _check(pool, draw, told, 2)
            pids = pool.pids()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    left = [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    counts = dict.fromkeys(("forks", "killed workers", "hostile answers"), few)
    return {**counts, **told, "processes left": len(left), "zombies": len(_zombies())}


def _alarm(pool: VerifierPool, draw: random.Random, told: dict[str, int]) -> None:
    """One interruption, at any moment of a call from its first tenths of a millisecond to its end."""
    while True:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0003 * 200 ** draw.random())
            _check(pool, draw, told, 4)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except Struck:
            told["interrupted"] += 1
            return


def _fork(pool: VerifierPool, draw: random.Random, told: dict[str, int]) -> None:
    child = os.fork()
    if child == 0:
        _copy(pool, draw)
    _check(pool, draw, told, 6)
    told["wrong"] += abs(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def _copy(pool: VerifierPool, draw: random.Random) -> NoReturn:
    """A forked copy's own verdicts; its exit code is how many were wrong, or says that it failed or hung."""
    mine = {"wrong": FAILED, "verdicts": 0, "not judged": 0}
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(600)
        _check(pool, draw, mine, 4)
        pool.close()
        mine["wrong"] -= FAILED
    finally:
        os._exit(mine["wrong"])


def _kill(pool: VerifierPool, draw: random.Random, told: dict[str, int]) -> None:
    [program] = pool.pids()
    judges = psutil.Process(program).children()
    if draw.random() < 0.5 or not judges:
        os.killpg(program, signal.SIGKILL)
    else:
        draw.choice(judges).kill()


def _hostile(pool: VerifierPool, draw: random.Random, told: dict[str, int]) -> None:
    verdict = pool.verify([TOWER])[0]
    told["wrong"] += verdict.accepted
    told["verdicts"] += 1


EVENTS = {"alarm": _alarm, "fork": _fork, "kill": _kill, "hostile": _hostile}


def _check(pool: VerifierPool, draw: random.Random, told: dict[str, int], count: int) -> None:
    asked = draw.sample(NAMED, count)
    found = pool.verify([(answer, gold) for answer, gold, _ in asked])
    told["verdicts"] += count
    told["not judged"] += sum(not verdict.judged for verdict in found)
    told["wrong"] += sum(v.judged and v.accepted != right for v, (_, _, right) in zip(found, asked, strict=True))


def _strike(*_: object) -> None:
    raise Struck


def _zombies() -> list[str]:
    """The children of this process that ended and were not waited for."""
    children = [pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()]
    return [pid for pid in children if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"]
