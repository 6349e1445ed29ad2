"""Reward servers for tests, on 127.0.0.1: one that misbehaves as it is told, or at random."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import uvicorn

ORDERS = (
    503, 500, 429, 408, "hang up", "half", "broken", "short", "shape", "null", "digits", "deep", "huge", "gzip", "dribble",
)  # fmt: skip
"""every way in which a request can go wrong here, but for a long silence"""


class Server(ThreadingHTTPServer):
    """Scores a conversation by `score`, after the misbehaviour that `script` or `order` gives for each request."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, order: Callable[[list[str]], object] | None = None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.script: list[object] = []
        self.order = order or (lambda texts: "ok")
        self.sizes: list[int] = []
        self.headers: list[dict[str, str]] = []
        self.lock = threading.Lock()
        self.ending = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}/score"
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def handle_error(self, *_: object) -> None:
        """Clients that leave early are the point of these tests."""


def score(text: str) -> int:
    """What the server thinks of a response."""
    return len(text)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts = [chat[-1]["content"] for chat in asked["conversations"]]
        with self.server.lock:
            order = self.server.script.pop(0) if self.server.script else self.server.order(texts)
            self.server.sizes.append(len(texts))
            self.server.headers.append(dict(self.headers))
        with contextlib.suppress(OSError):  # the client had a time-out and left
            self.answer(order, [score(text) for text in texts])

    def answer(self, order: object, scores: list[int]) -> None:
        good = json.dumps({"scores": scores}).encode()
        if order == "hang up":
            self.connection.shutdown(socket.SHUT_RDWR)
        elif order == "sleep":
            self.server.ending.wait(1.5)
            self.send(200, good)
        elif order == "half":
            self.send(200, good[:-3], length=len(good))
            self.connection.shutdown(socket.SHUT_RDWR)
        elif order == "dribble":
            self.send(200, b"", length=10_000)
            while not self.server.ending.wait(0.1):
                self.wfile.write(b" ")
                self.wfile.flush()
        elif order == "huge":
            self.send(200, b"", length=400 << 20)
            for _ in range(400):
                self.wfile.write(b" " * (1 << 20))
        elif isinstance(order, tuple):
            self.send(order[0], b"", headers={"Retry-After": order[1]})
        elif isinstance(order, int):
            self.send(order, b"{}")
        else:
            self.send(
                200,
                BODIES.get(order, lambda scores: good)(scores),
                {"Content-Encoding": "gzip"} if order == "gzip" else {},
            )

    def send(self, status: int, body: bytes, headers: dict[str, str] | None = None, length: int | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body) if length is None else length), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


BODIES: dict[object, Callable[[list[int]], bytes]] = {
    "broken": lambda scores: b"{broken",
    "short": lambda scores: json.dumps({"scores": scores[1:]}).encode(),
    "shape": lambda scores: b'["what?"]',
    "null": lambda scores: json.dumps({"scores": [None] * len(scores)}).encode(),
    "digits": lambda scores: b'{"scores": [' + b",".join([b"9" * 400] * len(scores)) + b"]}",
    "deep": lambda scores: b"[" * 200_000,
}


@contextlib.contextmanager
def running(order: Callable[[list[str]], object] | None = None) -> Iterator[Server]:
    """A server that is closed at the end of the block."""
    server = Server(order)
    try:
        yield server
    finally:
        server.ending.set()
        server.shutdown()
        server.server_close()


def chaotic(seed: int, share: float) -> Callable[[list[str]], object]:
    """Orders for a server that misbehaves at random, in `share` of the requests, and always on a response with "poison"."""
    draw = random.Random(seed)

    def order(texts: list[str]) -> object:
        if any("poison" in text for text in texts):
            return draw.choice((500, 422, "hang up"))
        return draw.choice(ORDERS) if draw.random() < share else "ok"

    return order


@contextlib.contextmanager
def running_apart(seed: int, share: float) -> Iterator[str]:
    """The address of a chaotic server in a process of its own, whose memory and descriptors are not those of its client."""
    command = [sys.executable, __file__, str(seed), str(share)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()  # afterwards, or if this process is killed, the end of its input ends it


@contextlib.contextmanager
def serving_app(app: Any) -> Iterator[str]:
    """The address of `app` in a thread of this process."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


if __name__ == "__main__":
    with running(chaotic(int(sys.argv[1]), float(sys.argv[2]))) as served:
        print(served.url, flush=True)
        sys.stdin.read()
