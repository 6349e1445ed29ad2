"""Request bodies with a limit in bytes and in seconds, enforced while they arrive."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rovrl.tasks.serve.replies import refusal


class BodyLimit:
    """ASGI middleware: 413 for a body of more than `max_bytes`, 408 for one that takes more than `seconds` to arrive."""

    def __init__(self, app: ASGIApp, max_bytes: int, seconds: float):
        self.app, self.max_bytes, self.seconds = app, max_bytes, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reads the whole body, then hands it on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            async with asyncio.timeout(self.seconds):
                body = await self._body(scope, receive)
        except TimeoutError:
            await refusal(408, f"the body took longer than {self.seconds:g} s")(scope, receive, send)
        except _TooLarge:
            await refusal(413, f"a body may have {self.max_bytes:,} bytes")(scope, receive, send)
        else:
            if body is not None:
                await self.app(scope, _replayed(body, receive), send)

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        """The body; None if the client has left."""
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if announced.isdigit() and int(announced[:20]) > self.max_bytes:
            raise _TooLarge
        parts, size, more = [], 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self.max_bytes:
                raise _TooLarge
            more = message.get("more_body", False)
        return b"".join(parts)


class _TooLarge(Exception):
    pass


def _replayed(body: bytes, receive: Receive) -> Receive:
    told = False

    async def again() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
