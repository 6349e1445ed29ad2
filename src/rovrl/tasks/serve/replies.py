"""Refusals: a status and one sentence, never an echo of what was sent."""

from __future__ import annotations

from fastapi.responses import JSONResponse

SHAPE = 'expected {"conversations": [[{"role": text, "content": text}, ...], ...]}'


def refusal(status: int, sentence: str, retry_after: int | None = None) -> JSONResponse:
    """The reply that says what was wrong; `Connection: close`, since the rest of a refused body is not read."""
    headers = {"Connection": "close"} if status in (408, 413) else {}
    if retry_after is not None:
        headers["Retry-After"] = str(retry_after)
    return JSONResponse({"error": sentence}, status, headers)
