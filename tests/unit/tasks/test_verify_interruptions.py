"""The verifier pool when something strikes in the middle of a question: an alarm, a fork, a kill, a close."""

import os
import random
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psutil
import pytest

from rovrl.errors import RovrlError
from rovrl.evaluate.metrics import accuracy
from rovrl.tasks import math
from rovrl.tasks.verify import Verdict, VerifierPool

pytestmark = pytest.mark.slow
TOWER = (r"\boxed{10^{10^{10}}}", "0.25")
QUARTERS = [(rf"\boxed{{\frac{{{a}}}{{{b}}}}}", "0.25") for a, b in ((1, 4), (1, 3), (2, 8), (1, 5), (3, 12), (2, 7))]
RIGHT = [True, False, True, False, True, False]


class Struck(Exception):
    pass


def strike(*_):
    raise Struck


def accepted(verdicts):
    return [verdict.accepted for verdict in verdicts]


@pytest.fixture
def alarm():
    """Arms a clock whose signal raises `Struck` in the main thread, wherever that is."""
    before = signal.signal(signal.SIGALRM, strike)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_after_an_alarm_every_verdict_belongs_to_its_own_question(alarm):
    with VerifierPool(1, time_limit=20.0) as pool:
        assert pool.verify(QUARTERS[:1]) == [Verdict(True)]
        alarm(0.3)
        with pytest.raises(Struck):
            pool.verify([TOWER])
        assert [pool.verify([pair])[0].accepted for pair in QUARTERS] == RIGHT


def test_an_interrupted_score_puts_nothing_wrong_into_the_memory(alarm):
    math._memory.clear()
    with VerifierPool(1, time_limit=20.0) as pool:
        pool.verify(QUARTERS[:1])
        alarm(0.3)
        with pytest.raises(Struck):
            math.scores([TOWER[0], *(answer for answer, _ in QUARTERS)], ["0.25"] * 7, pool=pool)
        for _ in range(2):
            assert math.scores([answer for answer, _ in QUARTERS], ["0.25"] * 6, pool=pool) == list(map(float, RIGHT))


def test_alarms_at_random_moments_never_shift_a_verdict(alarm):
    draw = random.Random(7)
    with VerifierPool(2, time_limit=20.0) as pool:
        pool.verify(QUARTERS)
        struck = 0
        for _ in range(60):
            alarm(draw.uniform(0.0005, 0.02))
            try:
                found = pool.verify([*QUARTERS, TOWER] if draw.random() < 0.5 else QUARTERS)
                assert accepted(found) == RIGHT
            except Struck:
                struck += 1
            alarm(0)
            order = draw.sample(range(6), 6)
            assert accepted(pool.verify([QUARTERS[n] for n in order])) == [RIGHT[n] for n in order]
        assert struck > 20
        assert len(pool.pids()) == 1


def test_an_interruption_costs_no_new_import_of_sympy(alarm):
    with VerifierPool(1, time_limit=20.0) as pool:
        pool.verify(QUARTERS)
        before = pool.pids()
        alarm(0.2)
        with pytest.raises(Struck):
            pool.verify([TOWER])
        assert accepted(pool.verify(QUARTERS)) == RIGHT
        assert pool.pids() == before


def in_a_fork(work):
    """The bytes that `work` returns in a forked copy of this process; a copy that hangs is killed by its own clock."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(120)
        try:
            os.write(write, work())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as told:
        answer = told.read()
    os.waitpid(child, 0)
    return answer


def shuffled_agree(pool, seed, rounds):
    draw = random.Random(seed)
    wrong = 0
    for _ in range(rounds):
        order = draw.sample(range(6), 6)
        found = accepted(pool.verify([QUARTERS[n] for n in order]))
        wrong += sum(a != RIGHT[n] for a, n in zip(found, order, strict=True))
    return wrong


def test_a_pool_on_both_sides_of_a_fork_gives_right_verdicts_on_both():
    with VerifierPool(2) as pool, ThreadPoolExecutor(1) as other:
        pool.verify(QUARTERS)
        mine = other.submit(shuffled_agree, pool, 1, 25)
        theirs = in_a_fork(lambda: b"%d wrong" % shuffled_agree(pool, 2, 25))
        assert theirs == b"0 wrong"
        assert mine.result() == 0


def test_a_fork_in_the_middle_of_a_batch_neither_hangs_nor_talks_to_its_parents_workers():
    with VerifierPool(2) as pool, ThreadPoolExecutor(2) as others:
        pool.verify(QUARTERS)
        running = [others.submit(shuffled_agree, pool, seed, 30) for seed in (3, 4)]
        mine = set(pool.pids())
        for _ in range(3):
            told = in_a_fork(
                lambda: (
                    b"%d wrong, %d shared"
                    % (shuffled_agree(pool, 5, 1), len(mine & set(pool.pids())) + (pool.pids() == []))
                )
            )
            assert told == b"0 wrong, 0 shared"
        assert [one.result() for one in running] == [0, 0]
        assert set(pool.pids()) == mine


def test_the_score_of_a_forked_copy_is_right_even_if_another_thread_was_scoring():
    assert math.score(r"\boxed{0.75}", "3/4") == 1.0
    stop = threading.Event()

    def keep_scoring():
        n = 0
        while not stop.is_set():
            n += 1
            math.scores([rf"\boxed{{\frac{{{n}}}{{7}}}}"], [f"{n}/7"])

    with ThreadPoolExecutor(1) as other:
        busy = other.submit(keep_scoring)
        try:
            for n in range(3):
                told = in_a_fork(lambda n=n: str(math.score(rf"\boxed{{\frac{{{n}}}{{9}}}}", f"{n}/9")).encode())
                assert told == b"1.0"
        finally:
            stop.set()
        busy.result()


def test_a_killed_process_costs_no_verdict():
    with VerifierPool(2) as pool:
        pool.verify(QUARTERS)
        for _ in range(3):
            for pid in pool.pids():
                os.killpg(pid, signal.SIGKILL)
            assert accepted(pool.verify(QUARTERS)) == RIGHT


@contextmanager
def kept_failing(pool):
    """Has every child that judges killed, ten times a second."""
    stop = threading.Event()

    def keep_killing():
        while not stop.wait(0.1):
            for judge in [judge for pid in pool.pids() for judge in psutil.Process(pid).children()]:
                judge.kill()

    killer = threading.Thread(target=keep_killing)
    killer.start()
    try:
        yield
    finally:
        stop.set()
        killer.join()


def test_an_evaluation_does_not_count_an_answer_that_could_not_be_judged_as_wrong(monkeypatch):
    math._memory.clear()
    with VerifierPool(1, time_limit=20.0) as pool:
        pool.verify(QUARTERS)
        monkeypatch.setattr(math, "shared_pool", lambda: pool)
        with (
            kept_failing(pool),
            pytest.raises(RovrlError, match=r"1 answers could not be judged .* repeat the command"),
        ):
            accuracy([{"answer": "0.25"}], [TOWER[0]])
        assert accuracy([{"answer": "0.25"}], [QUARTERS[0][0]]) == [{"accuracy": 1.0}]


def test_a_verifier_that_is_killed_every_time_gives_no_verdict_and_that_is_not_remembered():
    math._memory.clear()
    with VerifierPool(1, time_limit=20.0) as pool:
        pool.verify(QUARTERS)
        with kept_failing(pool):
            verdict = math.verdicts([TOWER[0]], ["0.25"], pool=pool)[0]
        assert verdict == Verdict(False, "the verifier was killed", judged=False)
        assert math._recall(TOWER, pool) is None


def test_a_refusal_by_a_limit_is_remembered_for_pools_with_that_limit_only():
    math._memory.clear()
    with VerifierPool(1, time_limit=0.3) as pool, VerifierPool(1, time_limit=0.4) as other:
        first = math.verdicts([TOWER[0]], ["0.25"], pool=pool)
        assert first == [Verdict(False, "over the time limit")]
        pool.close()
        assert math.verdicts([TOWER[0]], ["0.25"], pool=pool) == first  # a closed pool cannot have judged it again
        assert math._recall(TOWER, other) is None


def test_closing_a_pool_ends_its_processes_and_wakes_whoever_waits():
    pool = VerifierPool(1, time_limit=60.0)
    pool.verify(QUARTERS)
    pids = pool.pids()
    with ThreadPoolExecutor(1) as other:
        waiting = other.submit(pool.verify, [TOWER])
        threading.Event().wait(0.3)
        pool.close()
        with pytest.raises(RovrlError, match="this VerifierPool was closed"):
            waiting.result()
    assert [pid for pid in pids if os.path.exists(f"/proc/{pid}")] == []
    with pytest.raises(RovrlError, match="make a new one"):
        pool.verify(QUARTERS)
