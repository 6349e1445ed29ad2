"""Refusals: a status and one sentence, never an echo of what was sent."""

from __future__ import annotations

from fastapi.responses import JSONResponse

SHAPE = 'expected {"conversations": [[{"role": text, "content": text}, ...], ...]}'


def refusal(status: int, sentence: str, retry_after: int | None = None, *, unread: bool = False) -> JSONResponse:
    """The reply that says what was wrong; the connection is closed if the rest of a body is left `unread`."""
    headers = {"Connection": "close"} if unread else {}
    if retry_after is not None:
        headers["Retry-After"] = str(retry_after)
    return JSONResponse({"error": sentence}, status, headers)
