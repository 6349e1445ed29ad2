"""The reward server, for real on 127.0.0.1: what it refuses, what it batches, what it shows, how it ends."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import httpx
import pytest

from rovrl.errors import RovrlError
from rovrl.tasks import serve as module
from rovrl.tasks.remote import HttpReward
from rovrl.tasks.serve import ServerLimits, serve, serving

CHAT = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "abc"}]


def lengths(chats):
    return [float(len(chat[-1]["content"])) for chat in chats]


@pytest.fixture(scope="module")
def url():
    with serving(lengths, limits=ServerLimits(max_body=1 << 20, body_seconds=1.0)) as address:
        yield address


def test_client_and_server_agree_on_ten_batches(url):
    texts = ["x" * n for n in range(100)]
    reward = HttpReward(url, batch=10)
    assert reward(prompts=["?"] * 100, completions=texts) == [float(n) for n in range(100)]


@pytest.mark.parametrize(
    "content",
    [
        ["abc"],
        {"conversations": ["abc"]},
        {"conversations": [{"role": "user", "content": "x"}]},
        {"conversations": [[]]},
        {"conversations": [[{"role": "user"}]]},
        {"conversations": [[{"role": "user", "content": None}]]},
        {"conversations": [[{"role": "user", "content": 5}]]},
        {"conversations": [[["user", "x"]]]},
        {},
        None,
    ],
)
def test_a_request_of_another_shape_is_422_with_a_sentence(url, content):
    answer = httpx.post(url, json=content)
    assert answer.status_code == 422
    assert answer.json()["error"].startswith('expected {"conversations"')


@pytest.mark.parametrize("body", [b"", b"{broken", b"[" * 200_000, b"\xff\xfe"])
def test_a_body_that_is_no_json_is_refused_with_a_sentence(url, body):
    answer = httpx.post(url, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert "conversations" in answer.json()["error"]


def test_no_conversations_are_no_scores(url):
    assert httpx.post(url, json={"conversations": []}).json() == {"scores": []}


def test_a_body_beyond_the_limit_is_refused_before_it_is_sent_and_while_it_is(url):
    answer = httpx.post(url, content=b" " * (2 << 20))
    assert answer.status_code == 413

    def endless():
        for _ in range(600):
            yield b" " * (1 << 20)

    sent = []

    def counted():
        for part in endless():
            sent.append(len(part))
            yield part

    with contextlib.suppress(httpx.HTTPError):  # one who is still sending may see the closed connection first
        assert httpx.post(url, content=counted()).status_code == 413
    assert sum(sent) < 100 << 20


def test_an_unfinished_body_costs_its_bytes_at_most_and_ends_after_its_time(url):
    host, port = url.split("/")[2].split(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(
            b"POST /score HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
        )
        client.settimeout(5.0)
        start = time.monotonic()
        assert client.recv(1000).startswith(b"HTTP/1.1 408")
        assert 0.5 < time.monotonic() - start < 4.0


def test_three_hundred_silent_clients_are_no_threads_and_are_hung_up_on(monkeypatch):
    monkeypatch.setattr(module, "SILENCE", 1.0)
    with serving(lengths) as url:
        host, port = url.split("/")[2].split(":")
        threads = threading.active_count()
        clients = [socket.create_connection((host, int(port))) for _ in range(300)]
        try:
            assert HttpReward(url)(["?"], ["abc"]) == [3.0]
            assert threading.active_count() - threads < 5
            clients[0].settimeout(5.0)
            assert clients[0].recv(1) == b""
            assert clients[-1].recv(1) == b""
        finally:
            for client in clients:
                client.close()


def test_concurrent_requests_are_scored_together():
    sizes = []

    def slowly(chats):
        sizes.append(len(chats))
        time.sleep(0.2)
        return lengths(chats)

    async def ask(address):
        async with httpx.AsyncClient() as client:
            asked = [client.post(address, json={"conversations": [CHAT] * n}) for n in range(1, 9)]
            return [answer.json()["scores"] for answer in await asyncio.gather(*asked)]

    with serving(slowly) as url:
        assert asyncio.run(ask(url)) == [[3.0] * n for n in range(1, 9)]
    assert len(sizes) <= 4


def test_a_request_that_fails_does_not_fail_those_scored_with_it():
    def picky(chats):
        time.sleep(0.1)
        if any("poison" in chat[-1]["content"] for chat in chats):
            raise RuntimeError("out of memory")
        if any("odd" in chat[-1]["content"] for chat in chats):
            raise ValueError("an odd conversation")
        return lengths(chats)

    async def ask(address):
        async with httpx.AsyncClient() as client:
            texts = ("abc", "poison", "abcd", "odd")
            asked = [client.post(address, json={"conversations": [[{"role": "user", "content": t}]]}) for t in texts]
            return [(answer.status_code, answer.json()) for answer in await asyncio.gather(*asked)]

    with serving(picky) as url:
        good, poison, also_good, odd = asyncio.run(ask(url))
    assert good == (200, {"scores": [3.0]})
    assert also_good == (200, {"scores": [4.0]})
    assert poison == (500, {"error": "RuntimeError: out of memory"})
    assert odd == (422, {"error": "an odd conversation"})


def test_more_than_may_wait_is_refused_with_the_time_to_come_back():
    release = threading.Event()

    def stuck(chats):
        release.wait(20)
        return lengths(chats)

    async def ask(address):
        async with httpx.AsyncClient() as client:
            waiting = [asyncio.create_task(client.post(address, json={"conversations": [CHAT] * 3})) for _ in range(3)]
            await asyncio.sleep(0.5)
            refused = await client.post(address, json={"conversations": [CHAT] * 3})
            release.set()
            return refused, [(await answer).status_code for answer in waiting]

    with serving(stuck, limits=ServerLimits(max_waiting=10)) as url:
        refused, others = asyncio.run(ask(url))
    assert refused.status_code == 503
    assert refused.headers["Retry-After"] == "1"
    assert others == [200, 200, 200]


def test_scores_that_are_no_numbers_are_null():
    with serving(lambda chats: [float("nan"), None, float("inf"), 1]) as url:
        assert httpx.post(url, json={"conversations": [CHAT] * 4}).json() == {"scores": [None, None, None, 1.0]}


def test_health_and_metrics_say_what_happened():
    with serving(lambda chats: [None if chat[-1]["content"] == "" else 1.0 for chat in chats]) as url:
        base = url.removesuffix("/score")
        HttpReward(url)(["?"] * 3, ["a", "", "b"])
        httpx.post(url, json={})
        assert httpx.get(f"{base}/health").json() == {"status": "ok", "waiting": 0}
        shown = httpx.get(f"{base}/metrics").text
    for line in (
        'rovrl_reward_requests_total{status="200"} 1.0',
        'rovrl_reward_requests_total{status="422"} 1.0',
        "rovrl_reward_conversations_total 3.0",
        "rovrl_reward_nulls_total 1.0",
        'rovrl_reward_batch_size_bucket{le="4.0"} 1.0',
        "rovrl_reward_request_seconds_count 2.0",
    ):
        assert line in shown


def test_with_a_token_only_those_who_know_it_are_served():
    with serving(lengths, token="secret") as url:
        base = url.removesuffix("/score")
        assert HttpReward(url, token="secret")(["?"], ["abc"]) == [3.0]
        assert httpx.get(f"{base}/metrics").status_code == 401
        assert httpx.get(f"{base}/health").status_code == 200
        with pytest.raises(RovrlError, match=r"refuses the request \(status 401: check its address"):
            HttpReward(url, token="wrong")(["?"], ["abc"])


def test_a_port_that_is_taken_is_a_sentence(url):
    with pytest.raises(RovrlError, match="choose another --port"):
        serve(lengths, port=int(url.split("/")[2].split(":")[1]))


def test_a_server_told_to_stop_answers_what_is_under_way():
    program = (
        "import time; from rovrl.tasks.serve import serve\n"
        "serve(lambda chats: time.sleep(1.0) or [1.0] * len(chats), port=0)"
    )
    server = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    try:
        url = server.stdout.readline().strip()
        answers = []
        asking = threading.Thread(
            target=lambda: answers.append(httpx.post(url, json={"conversations": [CHAT]}, timeout=20))
        )
        while httpx.get(url.removesuffix("/score") + "/health").status_code != 200:
            time.sleep(0.05)
        asking.start()
        time.sleep(0.4)
        server.send_signal(signal.SIGTERM)
        asking.join()
        assert answers[0].json() == {"scores": [1.0]}
        assert server.wait(20) in (0, -signal.SIGTERM)
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
