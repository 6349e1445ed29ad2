"""The client of reward servers and time: deadlines, patience, the breaker, interruptions, forks, many at once."""

import asyncio
import os
import signal
import socket
import threading
import time

import pytest
from tenacity import RetryCallState

from reward_servers import chaotic, running
from rovrl.errors import RovrlError
from rovrl.tasks.remote import HttpReward
from rovrl.tasks.remote.call import Call, Limits
from rovrl.tasks.remote.transport import of_status


@pytest.fixture
def server():
    with running() as started:
        yield started


@pytest.fixture
def nobody():
    """An address at which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/score"


def asked(reward, texts):
    return reward(prompts=["?"] * len(texts), completions=texts)


def test_a_byte_now_and_then_does_not_pass_for_an_answer(server):
    server.script = ["dribble"]
    start = time.monotonic()
    reward = HttpReward(server.url, retries=0, timeout=0.5)
    assert asked(reward, ["abc"]) == [None]
    assert time.monotonic() - start < 1.5
    assert reward.tally.missing == {"timeout": 1}


def paused(failure=None, attempt=1, pause=0.0):
    """The seconds before the next attempt."""
    state = RetryCallState(None, None, (), {})
    state.attempt_number = attempt
    if failure is not None:
        state.set_result(failure)
    return Call([], None, Limits(pause=pause), None, None)._wait(state)


@pytest.mark.parametrize(
    ("said", "seconds"), [("7", 7.0), ("100000", 60.0), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0), ("nonsense", 0.0)]
)
def test_the_server_says_how_long_to_wait(said, seconds):
    assert paused(of_status(503, said)) == seconds
    assert paused(of_status(429, said), pause=200.0) >= 30.0  # a pause of one's own may be longer


def test_what_the_server_says_is_waited_for(server):
    server.script = [(503, "1"), (429, "Wed, 21 Oct 2015 07:28:00 GMT"), (503, "nonsense")]
    start = time.monotonic()
    assert asked(HttpReward(server.url, pause=0.0), ["abc"]) == [3.0]
    assert time.monotonic() - start >= 1.0


def test_pauses_grow_and_are_not_all_alike():
    first, third = ([paused(attempt=n, pause=0.5) for _ in range(200)] for n in (1, 3))
    assert len(set(first)) > 100
    assert 0.25 <= min(first) <= max(first) <= 1.25
    assert sum(third) > 2 * sum(first)


def test_a_call_ends_at_its_deadline_with_what_has_arrived_by_then():
    with running(lambda texts: "sleep" if "slow" in texts else "ok") as server:
        reward = HttpReward(server.url, batch=2, requests=2, deadline=0.6, timeout=60.0)
        start = time.monotonic()
        scores = asked(reward, ["a", "bb", "slow", "slow", "ccccc", "dddddd"])
        assert time.monotonic() - start < 1.4
        assert scores == [1.0, 2.0, None, None, 5.0, 6.0]
        assert reward.tally.missing == {"deadline": 2}


def test_a_batch_has_a_deadline_of_its_own(server):
    server.script = [503] * 50
    reward = HttpReward(server.url, batch=2, requests=1, retries=50, pause=0.05, batch_deadline=0.5)
    start = time.monotonic()
    assert asked(reward, ["a", "bb"]) == [None, None]
    assert time.monotonic() - start < 1.5


def test_patience_ends_a_call_that_gives_nothing_and_not_only_after_it(nobody):
    reward = HttpReward(nobody, patience=1.0, timeout=0.5, retries=1000, pause=0.1)
    start = time.monotonic()
    with pytest.raises(RovrlError, match=r"has given no score for 1 s .* start it again, then resume the run"):
        asked(reward, ["a"] * 3072)
    assert time.monotonic() - start < 2.0


def test_a_server_that_has_not_answered_by_then_is_not_said_to_have_answered_null():
    with running(lambda texts: "sleep") as server, pytest.raises(RovrlError, match="no answer so far"):
        asked(HttpReward(server.url, patience=0.3), ["a"])


def test_a_server_that_answers_null_for_everything_uses_patience_up():
    with running(lambda texts: "null") as server:
        reward = HttpReward(server.url, patience=1.0)
        assert asked(reward, ["a"]) == [None]
        time.sleep(1.0)
        with pytest.raises(RovrlError, match="null for every response"):
            asked(reward, ["a"])


def test_time_between_calls_does_not_use_patience_up_while_the_server_answers(server):
    server.script = ["null"]
    reward = HttpReward(server.url, patience=0.5)
    assert asked(reward, ["a"]) == [None]
    time.sleep(0.5)
    assert asked(reward, ["a"]) == [1.0]
    time.sleep(0.5)
    server.script = ["null"]
    assert asked(reward, ["a"]) == [None]


def test_the_breaker_opens_and_tries_again(server):
    server.script = [503] * 10
    reward = HttpReward(server.url, batch=1, requests=4, retries=10, pause=0.0)
    reward.breaker.pause = 0.1
    assert asked(reward, ["a", "bb", "ccc", "dddd"]) == [1.0, 2.0, 3.0, 4.0]
    assert reward.breaker.openings == 1
    assert not reward.breaker.is_open
    assert reward.metrics()["reward_server/breaker_open"] == 0.0


def test_an_open_breaker_lets_one_request_through_at_a_time(nobody):
    reward = HttpReward(nobody, batch=1, requests=8, retries=1000, pause=0.0, batch_deadline=1.0)
    assert asked(reward, ["a"] * 8) == [None] * 8
    assert reward.breaker.is_open
    assert reward.last.requests < 20  # eight to open it, the eight in flight, one or two trials
    assert reward.metrics()["reward_server/breaker_open"] == 1.0


@pytest.fixture
def heeds_ctrl_c():
    """Python's own handler: a process that a script starts in the background ignores SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_ctrl_c_ends_a_call_within_a_second():
    left = []

    def interrupted_while_waiting():
        while not server.sizes:  # the call is under way, on a busy machine too
            time.sleep(0.01)
        left.append(time.monotonic())
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # as a terminal does

    with running(lambda texts: "dribble") as server:
        reward = HttpReward(server.url)
        thread = threading.Thread(target=interrupted_while_waiting)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            asked(reward, ["a"] * 200)
        assert time.monotonic() - left[0] < 1.0
        thread.join()
        server.order = lambda texts: "ok"
        assert asked(reward, ["abc"]) == [3.0]


def test_a_client_on_both_sides_of_a_fork_is_answered_on_both(server):
    reward = HttpReward(server.url, batch=2)
    assert asked(reward, ["a", "bb", "ccc", "dddd"]) == [1.0, 2.0, 3.0, 4.0]
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(30)  # a copy that hangs ends by its own clock
        try:
            os.write(write, repr(asked(reward, ["aaa", "bb", "a"])).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as told:
        assert told.read() == b"[3.0, 2.0, 1.0]"
    os.waitpid(child, 0)
    assert asked(reward, ["abcde"]) == [5.0]


def test_many_threads_share_one_client(server):
    reward = HttpReward(server.url, batch=4)
    found = {}

    def work(n):
        found[n] = asked(reward, ["x" * (n + k) for k in range(10)])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: [float(n + k) for k in range(10)] for n in range(8)}


def test_single_questions_asked_at_once_go_in_batches(server):
    reward = HttpReward(server.url, batch=32)

    async def ask_all():
        return await asyncio.gather(*(reward.one("?", "x" * n) for n in range(100)))

    assert asyncio.run(ask_all()) == [float(n) for n in range(100)]
    assert sum(server.sizes) == 100
    assert len(server.sizes) < 20


def test_a_question_that_nobody_waits_for_any_more_is_not_sent(server):
    reward = HttpReward(server.url)

    async def give_up():
        task = asyncio.create_task(reward.one("?", "gone"))
        await asyncio.sleep(0.001)
        task.cancel()
        return await asyncio.gather(reward.one("?", "abc"), task, return_exceptions=True)

    kept, gone = asyncio.run(give_up())
    assert kept == 3.0
    assert isinstance(gone, asyncio.CancelledError)
    assert server.sizes == [1]


def test_chaos_gives_the_right_score_or_none_and_swaps_none():
    with running(chaotic(seed=1, share=0.5)) as server:
        texts = ["poison" if n % 97 == 5 else "x" * (n % 211) for n in range(600)]
        reward = HttpReward(server.url, timeout=0.5, pause=0.01, deadline=10.0, requests=8, batch=16)
        reward.breaker.pause = 0.05
        start = time.monotonic()
        scores = asked(reward, texts)
        assert time.monotonic() - start < 11.0
        wrong = [n for n, found in enumerate(scores) if found is not None and found != len(texts[n])]
        assert wrong == []
        assert sum(found is not None for found in scores) > 500
        assert all(found is None for found, text in zip(scores, texts, strict=True) if text == "poison")
