"""The application: POST /score, GET /health, GET /metrics."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from rovrl.tasks.serve.batcher import Batcher, Full, Scorer
from rovrl.tasks.serve.body import BodyLimit
from rovrl.tasks.serve.replies import SHAPE, refusal


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
    limits = limits or ServerLimits()
    meters = _Meters()
    batcher = Batcher(score, limits.batch, limits.max_waiting, meters.batch_size.observe)
    meters.waiting.set_function(lambda: batcher.waiting)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        scoring = asyncio.create_task(batcher.run())
        yield
        scoring.cancel()  # by now every request has been answered, or its time is over

    app = FastAPI(title="rovrl reward", lifespan=lifespan)
    together = max(limits.max_body, limits.max_bodies)
    app.add_middleware(BodyLimit, max_bytes=limits.max_body, max_held=together, seconds=limits.body_seconds)
    app.exception_handler(RequestValidationError)(_misshapen)
    app.exception_handler(HTTPException)(_plain)

    @app.middleware("http")
    async def guard(request: Request, call_next: Any) -> Response:
        start = time.perf_counter()
        if token is None or request.url.path == "/health" or _knows(request, token):
            response = await call_next(request)
        else:
            response = refusal(401, "a bearer token is needed: Authorization: Bearer TOKEN")
        if request.url.path == "/score":
            meters.requests.labels(response.status_code).inc()
            meters.seconds.observe(time.perf_counter() - start)
        return response

    @app.post("/score")
    async def scores(question: Question) -> Response:
        chats = [[message.model_dump() for message in chat] for chat in question.conversations]
        try:
            found = await batcher.scores(chats) if chats else []
        except Full:
            return refusal(503, f"{batcher.waiting} conversations are waiting already", retry_after=1)
        except ValueError as error:
            return refusal(422, str(error))
        except Exception as error:  # out of memory, say: worth another try
            return refusal(500, f"{type(error).__name__}: {error}")
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


def _knows(request: Request, token: str) -> bool:
    given = request.headers.get("authorization", "").encode()
    return secrets.compare_digest(given, f"Bearer {token}".encode())


async def _misshapen(request: Request, error: Exception) -> Response:
    first = error.errors()[0] if isinstance(error, RequestValidationError) else {}
    where = ".".join(map(str, first.get("loc", ())[1:]))
    return refusal(422, f"{SHAPE}: {where or 'body'}: {first.get('msg', 'unreadable')}")


async def _plain(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    sentence = str(getattr(error, "detail", error))
    return refusal(status, f"{SHAPE}: {sentence}" if status == 400 else sentence)
