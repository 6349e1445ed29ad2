"""uvicorn around a scorer: prints its address, hangs up on silent clients, and answers what is under way before it ends."""

from __future__ import annotations

import argparse
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from rovrl.errors import RovrlError
from rovrl.tasks.serve.app import ServerLimits, create_app
from rovrl.tasks.serve.batcher import Scorer

TOKEN_VARIABLE = "ROVRL_REWARD_TOKEN"
SILENCE = 30.0  # seconds a connection may take over a request's head
_LAST_REQUESTS = 30  # seconds that requests have to finish once the server is told to stop


class _HangingUp(H11Protocol):
    """Closes connections on which no whole head of a request arrives: they would be kept for ever."""

    def connection_made(self, transport: Any) -> None:
        """Starts the clock."""
        super().connection_made(transport)
        self._clock = self.loop.call_later(SILENCE, self._hang_up)

    def on_response_complete(self) -> None:
        """Starts it again: uvicorn's own stops at the first byte of the next head."""
        super().on_response_complete()
        self._clock.cancel()
        self._clock = self.loop.call_later(SILENCE, self._hang_up)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops it."""
        super().connection_lost(exc)
        self._clock.cancel()

    def _hang_up(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


def add_arguments(parser: argparse.ArgumentParser, port: int) -> None:
    """--host, --port and --batch of a server's command; the token comes from the environment, where `ps` does not show it."""
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help=f"0.0.0.0 to serve other machines; set {TOKEN_VARIABLE} then (default: 127.0.0.1)",
    )
    parser.add_argument("--port", type=int, default=port, help=f"default: {port}; 0: any free one")
    parser.add_argument("--batch", type=int, default=32, metavar="N", help="conversations scored at once (default: 32)")


def serve(
    score: Scorer,
    *,
    host: str = "127.0.0.1",
    port: int = 8100,
    limits: ServerLimits | None = None,
    token: str | None = None,
) -> None:
    """Serves until SIGTERM or Ctrl-C; prints the address on standard output. `token` defaults to $ROVRL_REWARD_TOKEN."""
    listening = _listen(host, port)
    print(f"http://{host}:{listening.getsockname()[1]}/score", flush=True)
    _server(score, limits, token or os.environ.get(TOKEN_VARIABLE)).run(sockets=[listening])


@contextmanager
def serving(score: Scorer, *, limits: ServerLimits | None = None, token: str | None = None) -> Iterator[str]:
    """The address of a server in a thread of this process, for the length of the block."""
    listening = _listen("127.0.0.1", 0)
    server = _server(score, limits, token)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/score"
    finally:
        server.should_exit = True
        thread.join()


def _listen(host: str, port: int) -> socket.socket:
    """A socket whose connections send at once: with Nagle's algorithm an answer's body waits 40 ms for its head's receipt."""
    try:
        listening = socket.create_server((host, port), backlog=2048)
    except (OSError, OverflowError) as error:
        raise RovrlError(
            f"cannot listen on {host}:{port} ({error}): choose another --port, or 0 for any free one"
        ) from None
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio would, but not to sockets made like this
    return listening


def _server(score: Scorer, limits: ServerLimits | None, token: str | None) -> uvicorn.Server:
    settings = uvicorn.Config(
        create_app(score, limits=limits, token=token),
        http=_HangingUp,
        log_level="warning",
        access_log=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=_LAST_REQUESTS,
    )
    return uvicorn.Server(settings)
