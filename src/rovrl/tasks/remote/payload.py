"""What comes back from a server, read with suspicion: at most so many bytes, so deep, and only numbers that are numbers."""

from __future__ import annotations

import json
import math
from typing import Any

import httpx

from rovrl.tasks.remote.failure import Failure


async def read_capped(response: httpx.Response, limit: int) -> bytes:
    """The body, as it came over the wire; a Failure as soon as it is longer than `limit`."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise Failure("answer", "a compressed answer, which was not asked for", divisible=False)
    parts, size = [], 0
    try:
        async for part in response.aiter_raw():
            size += len(part)
            if size > limit:
                raise Failure("answer", f"more than {limit:,} bytes")
            parts.append(part)
        return b"".join(parts)
    finally:
        parts.clear()  # an exception keeps this frame, and who catches it may keep the exception


def parse(body: bytes) -> Any:
    """The JSON value of `body`."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits is a ValueError, too
        raise Failure("answer", f"not JSON ({type(error).__name__})") from None


def number(value: object) -> float | None:
    """`value` as a finite float; None for anything else, such as a truth value, a text or 400 digits."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None
