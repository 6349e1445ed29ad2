"""One attempt: JSON to one address and back, bounded in time and size; and what it means when it fails."""

from __future__ import annotations

import asyncio
import email.utils
import json
import math
import time
from typing import Any

import httpx

REASONS = {
    "null": "the server answered null, or a number that is not finite",
    "unparsable": "the judge's reply holds no grade",
    "refused": "the server refuses this response (400, 413, 422), even on its own",
    "status": "408, 429 or 5xx, every time",
    "unreachable": "no connection",
    "timeout": "no complete answer within `timeout`",
    "answer": "an answer that is not what the protocol says, or too large",
    "deadline": "the time for the batch or for the whole call was over",
}
"""every reason for which a score can be None, as it is counted and logged"""

LONGEST_WAIT = 60.0  # seconds of a Retry-After that are heeded


class Failure(Exception):
    """One request that gave no scores.

    `again`: another attempt may succeed. `divisible`: one response may be the cause, so halves are worth a try.
    `wait`: seconds the server asked for. `misconfigured`: nothing will ever come from this address.
    """

    def __init__(
        self,
        reason: str,
        detail: str,
        *,
        again: bool = True,
        divisible: bool = True,
        wait: float = 0.0,
        misconfigured: bool = False,
    ):
        super().__init__(detail)
        self.reason, self.again, self.divisible = reason, again, divisible
        self.wait, self.misconfigured = wait, misconfigured

    def bare(self) -> Failure:
        """The same without its frames and causes, which hold what the server sent for as long as the failure is kept."""
        self.__traceback__ = self.__context__ = None
        return self


class Transport:
    """POSTs to `url`; a request holds one of `requests` slots while it is in flight. Used in the background loop."""

    def __init__(self, url: str, headers: dict[str, str], timeout: float, requests: int, max_answer: int):
        self.url, self.timeout, self.requests, self.max_answer = url, timeout, requests, max_answer
        self._headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", **headers}
        self._left_behind: list[object] = []
        self._client: httpx.AsyncClient | None = None
        self.slots = asyncio.Semaphore(requests)

    def forget(self) -> None:
        """In a forked copy: connections of its own; the parent's are kept, unused, not closed."""
        self._left_behind.append(self._client)
        self._client, self.slots = None, asyncio.Semaphore(self.requests)

    async def close(self) -> None:
        """Closes the connections; the next request opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def post(self, body: dict[str, Any]) -> Any:
        """The JSON answer; a Failure for anything else, `timeout` seconds after the start at the latest."""
        if self._client is None:
            limits = httpx.Limits(max_connections=self.requests, max_keepalive_connections=self.requests)
            self._client = httpx.AsyncClient(headers=self._headers, timeout=self.timeout, limits=limits)
        try:
            async with asyncio.timeout(self.timeout):
                return await self._exchange(self._client, json.dumps(body).encode())
        except TimeoutError:
            raise Failure("timeout", f"no complete answer within {self.timeout:g} s") from None
        except (httpx.ConnectError, httpx.PoolTimeout) as error:
            raise Failure("unreachable", f"no connection ({error})", divisible=False) from None
        except httpx.HTTPError as error:
            raise Failure("unreachable", f"{type(error).__name__}: {error}") from None

    async def _exchange(self, client: httpx.AsyncClient, body: bytes) -> Any:
        response = await client.send(client.build_request("POST", self.url, content=body), stream=True)
        try:
            if response.status_code != 200:
                raise of_status(response.status_code, response.headers.get("retry-after"))
            return parsed(await self._capped(response))
        finally:
            await response.aclose()
            del response.stream  # the two hold each other, and their connection, until a collector comes by

    async def _capped(self, response: httpx.Response) -> bytes:
        """The body, as it came over the wire; a Failure as soon as it is longer than `max_answer`."""
        if response.headers.get("content-encoding", "identity") != "identity":
            raise Failure("answer", "a compressed answer, which was not asked for", divisible=False)
        body = bytearray()
        try:
            async for part in response.aiter_raw():
                body += part
                if len(body) > self.max_answer:
                    raise Failure("answer", f"more than {self.max_answer:,} bytes")
            return bytes(body)
        finally:
            body.clear()  # an exception keeps this frame, and who catches it may keep the exception


def of_status(code: int, retry_after: str | None = None) -> Failure:
    """The failure that a status other than 200 means."""
    detail = f"status {code}"
    if code in (400, 413, 422):
        return Failure("refused", detail, again=False)
    if code in (408, 425, 429, 502, 503, 504):
        return Failure("status", detail, divisible=False, wait=seconds_to_wait(retry_after))
    if code >= 500:
        return Failure("status", detail, wait=seconds_to_wait(retry_after))
    advice = f"{detail}: check its address, what it expects and its token"
    return Failure("refused", advice, again=False, divisible=False, misconfigured=True)


def seconds_to_wait(retry_after: str | None) -> float:
    """The seconds of a Retry-After header, a number or a date, at most 60; 0 for none and for nonsense."""
    if not retry_after:
        return 0.0
    if retry_after.strip().isdecimal():
        return min(float(retry_after.strip()[:6]), LONGEST_WAIT)
    try:
        until = email.utils.parsedate_to_datetime(retry_after).timestamp()
    except (ValueError, OverflowError):
        return 0.0
    return min(max(until - time.time(), 0.0), LONGEST_WAIT)


def parsed(body: bytes) -> Any:
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


def checked_address(url: str, path: str) -> str:
    """`url`, with `path` if it has none of its own; a ValueError if nothing can be reached by it."""
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"url must start with http:// or https://, not {url!r}")
    try:
        address = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ValueError(f"url {url!r} is not an address ({error})") from None
    if not address.host or " " in url or not 0 < (address.port or 80) < 65_536:
        raise ValueError(f"url must name a host and, if any, a port below 65536, not {url!r}")
    _, _, rest = url.partition("://")[2].partition("/")
    return url if rest else url.rstrip("/") + path


def bearer(token: str | None) -> dict[str, str]:
    """The header for `token`, without the line break that files end with."""
    token = (token or "").strip()
    if not token.isascii() or not token.isprintable():
        raise ValueError("token must be one line of plain characters")
    return {"Authorization": f"Bearer {token}"} if token else {}
