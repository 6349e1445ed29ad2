"""Request bodies with a limit in bytes and in seconds, enforced while they arrive."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rovrl.tasks.serve.replies import refusal


class BodyLimit:
    """ASGI middleware: 413 for a body of more than `max_bytes`, 408 for one that takes more than `seconds` to arrive.

    503 while the bodies of all requests, until they are answered, would have more than `max_held` bytes.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, max_held: int, seconds: float):
        self.app, self.max_bytes, self.max_held, self.seconds = app, max_bytes, max_held, seconds
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reads the whole body, then hands it on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        parts: list[bytes] = []
        try:
            await self._read(parts, scope, receive, send)
        finally:
            self._held -= sum(map(len, parts))

    async def _read(self, parts: list[bytes], scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with asyncio.timeout(self.seconds):
                whole = await self._receive(parts, scope, receive)
        except TimeoutError:
            refused = refusal(408, f"the body took longer than {self.seconds:g} s", unread=True)
        except _TooLarge:
            refused = refusal(413, f"a body may have {self.max_bytes:,} bytes", unread=True)
        except _TooMany:
            refused = refusal(503, f"requests of {self._held:,} bytes are under way", retry_after=1, unread=True)
        else:
            if whole:
                await self.app(scope, _replayed(b"".join(parts), receive), send)
            return
        await refused(scope, receive, send)

    async def _receive(self, parts: list[bytes], scope: Scope, receive: Receive) -> bool:
        """Adds the body's parts to `parts`; False if the client has left."""
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if announced.isdigit() and int(announced[:20]) > self.max_bytes:
            raise _TooLarge
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return False
            part = message.get("body", b"")
            size += len(part)
            if size > self.max_bytes:
                raise _TooLarge
            if self._held + len(part) > self.max_held:
                raise _TooMany
            parts.append(part)
            self._held += len(part)
            more = message.get("more_body", False)
        return True


class _TooLarge(Exception):
    pass


class _TooMany(Exception):
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
