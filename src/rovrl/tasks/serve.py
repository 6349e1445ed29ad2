"""A scorer behind HTTP: FastAPI and uvicorn with limits on what clients may send, hold and wait for.

    from rovrl.tasks.serve import serve
    serve(lambda chats: [len(chat[-1]["content"]) for chat in chats], port=8100)

POST /score takes {"conversations": [[{"role": .., "content": ..}, ..], ..]} and answers {"scores": [number or null, ..]}. A
refusal is a status and one sentence, never an echo of what was sent.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import secrets
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from rovrl.errors import RovrlError, require
from rovrl.tasks.chat import Chat

for _package in ("fastapi", "uvicorn", "prometheus_client"):
    require(_package, extra="serve")

import uvicorn  # noqa: E402
from fastapi import FastAPI, Request  # noqa: E402
from fastapi.responses import JSONResponse, Response  # noqa: E402
from prometheus_client import (  # noqa: E402
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from pydantic import BaseModel, ConfigDict, Field, ValidationError  # noqa: E402
from starlette.exceptions import HTTPException  # noqa: E402
from starlette.requests import ClientDisconnect  # noqa: E402
from uvicorn.protocols.http.h11_impl import H11Protocol  # noqa: E402

Scorer = Callable[[list[Chat]], Sequence[Any]]
"""the scores of some conversations; a ValueError is about the conversations, any other exception about the machine"""
TOKEN_VARIABLE = "ROVRL_REWARD_TOKEN"
SILENCE = 30.0  # seconds a connection may take over a request's head
LAST_REQUESTS = 30  # seconds that requests have to finish once the server is told to stop
SHAPE = 'expected {"conversations": [[{"role": text, "content": text}, ...], ...]}'


@dataclass(frozen=True)
class ServerLimits:
    """What clients may ask of a server."""

    batch: int = 32  # conversations scored at once
    max_waiting: int = 4096  # conversations that wait; beyond, 503
    max_body: int = 64 << 20  # bytes
    max_bodies: int = 256 << 20  # bytes of all bodies that are arriving or being scored; beyond, 503
    body_seconds: float = 30.0  # in which a body has to arrive


class Message(BaseModel):
    """One turn."""

    model_config = ConfigDict(strict=True, extra="ignore")
    role: str
    content: str


class Question(BaseModel):
    """What /score is asked."""

    conversations: list[Annotated[list[Message], Field(min_length=1)]]


def create_app(score: Scorer, *, limits: ServerLimits | None = None, token: str | None = None) -> FastAPI:
    """The application around `score`; with a `token`, scores and metrics need it as a bearer token."""
    limits, meters = limits or ServerLimits(), _Meters()
    batcher = Batcher(score, limits.batch, limits.max_waiting, meters.batch_size.observe)
    bodies = Bodies(limits)
    meters.waiting.set_function(lambda: batcher.waiting)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        scoring = asyncio.create_task(batcher.run())
        yield
        scoring.cancel()  # by now every request has been answered, or its time is over

    app = FastAPI(title="rovrl reward", lifespan=lifespan)
    app.exception_handler(HTTPException)(_refused)

    @app.middleware("http")
    async def guard(request: Request, call_next: Any) -> Response:
        start = time.perf_counter()
        if token is None or request.url.path == "/health" or _knows(request, token):
            response = await call_next(request)
        else:
            response = _refusal(401, "a bearer token is needed: Authorization: Bearer TOKEN")
        if request.url.path == "/score":
            meters.requests.labels(response.status_code).inc()
            meters.seconds.observe(time.perf_counter() - start)
        return response

    @app.post("/score")
    async def scores(request: Request) -> Response:
        async with bodies.read(request) as body:
            found = await batcher.scores(_conversations(body))
        meters.conversations.inc(len(found))
        meters.nulls.inc(sum(value is None for value in found))
        return JSONResponse({"scores": found})

    @app.get("/health")
    async def health() -> dict[str, Any]:
        return {"status": "ok", "waiting": batcher.waiting}

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(generate_latest(meters.registry), media_type=CONTENT_TYPE_LATEST)

    return app


class Bodies:
    """The bodies of requests, limited in bytes and seconds while they arrive, each and together."""

    def __init__(self, limits: ServerLimits):
        self.limits = limits
        self.together = max(limits.max_body, limits.max_bodies)
        self._held = 0

    @asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytes]:
        """The whole body, which counts until the block ends.

        413 for one that is too large, 408 for one that takes too long, 503 while there is too much of all.
        """
        body = bytearray()
        try:
            try:
                async with asyncio.timeout(self.limits.body_seconds):
                    await self._receive(request, body)
            except TimeoutError:
                raise _unread(408, f"the body took longer than {self.limits.body_seconds:g} s") from None
            except ClientDisconnect:
                raise _unread(400, "the client has left") from None
            yield bytes(body)
        finally:
            self._held -= len(body)

    async def _receive(self, request: Request, body: bytearray) -> None:
        too_large = _unread(413, f"a body may have {self.limits.max_body:,} bytes")
        announced = request.headers.get("content-length", "0")
        if announced.isdigit() and int(announced[:20]) > self.limits.max_body:
            raise too_large
        async for part in request.stream():
            if len(body) + len(part) > self.limits.max_body:
                raise too_large
            if self._held + len(part) > self.together:
                raise _unread(503, f"requests of {self._held:,} bytes are under way", {"Retry-After": "1"})
            body += part
            self._held += len(part)


class Batcher:
    """Scores requests in one thread; those that wait are scored together, up to `size` conversations at a time.

    A batch that fails is scored again request by request, so that nobody fails for another's conversation.
    """

    def __init__(self, score: Scorer, size: int, max_waiting: int, on_batch: Callable[[int], object]):
        self.size, self.max_waiting = size, max_waiting
        self.waiting = 0  # conversations that are queued or being scored
        self._score, self._on_batch = score, on_batch
        self._queue: asyncio.Queue[tuple[list[Chat], asyncio.Future[list[float | None]]]] = asyncio.Queue()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="scorer")

    async def scores(self, chats: list[Chat]) -> list[float | None]:
        """The scores of one request; None where the scorer gives no finite number."""
        if not chats:
            return []
        if self.waiting and self.waiting + len(chats) > self.max_waiting:
            raise HTTPException(503, f"{self.waiting} conversations are waiting already", {"Retry-After": "1"})
        mine: asyncio.Future[list[float | None]] = asyncio.get_running_loop().create_future()
        self.waiting += len(chats)
        try:
            self._queue.put_nowait((chats, mine))
            return await mine
        finally:
            self.waiting -= len(chats)

    async def run(self) -> None:
        """Scores until it is cancelled."""
        try:
            while True:
                together = [await self._queue.get()]
                count = len(together[0][0])
                while count < self.size and not self._queue.empty():
                    together.append(self._queue.get_nowait())
                    count += len(together[-1][0])
                await self._answer([(chats, mine) for chats, mine in together if not mine.done()])
        finally:
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def _answer(self, together: list[tuple[list[Chat], asyncio.Future[list[float | None]]]]) -> None:
        try:
            scores = await self._batch([chat for chats, _ in together for chat in chats])
        except Exception as error:
            if len(together) > 1:
                for request in together:
                    await self._answer([request])
            elif not together[0][1].done():
                together[0][1].set_exception(_of_scorer(error))
            return
        for chats, mine in together:
            part, scores = scores[: len(chats)], scores[len(chats) :]
            if not mine.done():
                mine.set_result(part)

    async def _batch(self, chats: list[Chat]) -> list[float | None]:
        self._on_batch(len(chats))
        found = await asyncio.get_running_loop().run_in_executor(self._thread, self._score, chats)
        if len(found) != len(chats):
            raise RuntimeError(f"the scorer gave {len(found)} scores for {len(chats)} conversations")
        return [float(score) if score is not None and math.isfinite(score) else None for score in found]


class _Meters:
    """What /metrics shows, of this application alone."""

    def __init__(self):
        self.registry = CollectorRegistry()
        of = {"registry": self.registry, "namespace": "rovrl_reward"}
        self.requests = Counter("requests", "Requests for scores.", ["status"], **of)
        self.conversations = Counter("conversations", "Conversations scored.", **of)
        self.nulls = Counter("nulls", "Conversations without a score.", **of)
        self.seconds = Histogram("request_seconds", "From a request's arrival to its answer.", **of)
        self.batch_size = Histogram(
            "batch_size", "Conversations scored at once.", buckets=(1, 2, 4, 8, 16, 32, 64, 128), **of
        )
        self.waiting = Gauge("waiting", "Conversations that are queued or being scored.", **of)


def _conversations(body: bytes) -> list[Chat]:
    try:
        question = Question.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise HTTPException(422, f"{SHAPE}: {where or 'body'}: {first['msg']}") from None
    return [[message.model_dump() for message in chat] for chat in question.conversations]


def _of_scorer(error: Exception) -> HTTPException:
    if isinstance(error, ValueError):
        return HTTPException(422, str(error))
    return HTTPException(500, f"{type(error).__name__}: {error}")  # out of memory, say: worth another try


def _unread(status: int, sentence: str, headers: dict[str, str] | None = None) -> HTTPException:
    """A refusal that closes the connection, since the rest of a body is left unread."""
    return HTTPException(status, sentence, {"Connection": "close", **(headers or {})})


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _refusal(error.status_code, error.detail, error.headers)


def _refusal(status: int, sentence: str, headers: Any = None) -> JSONResponse:
    return JSONResponse({"error": sentence}, status, headers)


def _knows(request: Request, token: str) -> bool:
    given = request.headers.get("authorization", "").encode()
    return secrets.compare_digest(given, f"Bearer {token}".encode())


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
        timeout_graceful_shutdown=LAST_REQUESTS,
    )
    return uvicorn.Server(settings)
