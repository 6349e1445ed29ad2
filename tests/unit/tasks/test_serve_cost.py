"""What clients may cost a server beside their scores: time, connections, memory."""

import socket
import time

import httpx

from rovrl.tasks import serve as module
from rovrl.tasks.serve import ServerLimits, serving

HEAD = b"POST /score HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


def lengths(chats):
    return [float(len(chat[-1]["content"])) for chat in chats]


def connected(url: str) -> socket.socket:
    host, port = url.split("/")[2].split(":")
    return socket.create_connection((host, int(port)), timeout=10.0)


def test_no_answer_waits_for_the_receipt_of_its_own_head():
    with module._listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        connection, _ = listening.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_client_that_stops_in_the_middle_of_its_second_request_is_hung_up_on(monkeypatch):
    monkeypatch.setattr(module, "SILENCE", 0.5)
    with serving(lengths) as url, connected(url) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        told = b""
        while b"waiting" not in told:
            told += client.recv(4096)
        client.sendall(b"POST /score HT")
        while client.recv(4096):  # a time-out here is the failure: the connection is still open
            pass


def test_unfinished_bodies_share_one_limit_and_give_it_back():
    chat = {"conversations": [[{"role": "assistant", "content": "x" * 30_000}]]}
    with serving(lengths, limits=ServerLimits(max_body=50_000, max_bodies=60_000)) as url:
        with connected(url) as client:
            client.sendall(HEAD + b"Content-Length: 50000\r\n\r\n" + b" " * 40_000)
            while (refused := httpx.post(url, json=chat)).status_code == 200:
                time.sleep(0.05)  # the other body is on its way
            assert refused.status_code == 503
            assert refused.headers["retry-after"] == "1"
            assert refused.json()["error"].endswith("bytes are under way")
        while (answer := httpx.post(url, json=chat)).status_code == 503:
            time.sleep(0.05)
        assert answer.json() == {"scores": [30_000.0]}
