"""JSON to one address and back, on pooled connections: one attempt, bounded in time and size."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx

from rovrl.tasks.forks import aware_of_forks
from rovrl.tasks.remote.background import background
from rovrl.tasks.remote.failure import Failure, of_status
from rovrl.tasks.remote.payload import parse, read_capped


class Transport:
    """POSTs to `url`; `slots` is how many requests may be in flight. Used in the background loop only."""

    def __init__(self, url: str, headers: dict[str, str], timeout: float, requests: int, max_answer: int):
        self.url, self.timeout, self.requests, self.max_answer = url, timeout, requests, max_answer
        self._headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", **headers}
        self._left_behind: list[object] = []
        self._client: httpx.AsyncClient | None = None
        self._slots: asyncio.Semaphore | None = None
        aware_of_forks(self)
        background.closes(self)

    def start_afresh(self) -> None:
        """In a forked copy: connections of its own; the parent's are kept, unused, not closed."""
        self._left_behind.append(self._client)
        self._client = self._slots = None

    @property
    def slots(self) -> asyncio.Semaphore:
        """What a request holds while it is in flight."""
        self._slots = self._slots or asyncio.Semaphore(self.requests)
        return self._slots

    async def post(self, body: dict[str, Any]) -> Any:
        """The JSON answer; a Failure for anything else, `timeout` seconds after the start at the latest."""
        try:
            async with asyncio.timeout(self.timeout):
                return await self._exchange(json.dumps(body).encode())
        except TimeoutError:
            raise Failure("timeout", f"no complete answer within {self.timeout:g} s") from None
        except (httpx.ConnectError, httpx.PoolTimeout) as error:
            raise Failure("unreachable", f"no connection ({error})", divisible=False) from None
        except httpx.HTTPError as error:
            raise Failure("unreachable", f"{type(error).__name__}: {error}") from None

    async def _exchange(self, body: bytes) -> Any:
        client = self._pool()
        response = await client.send(client.build_request("POST", self.url, content=body), stream=True)
        try:
            if response.status_code != 200:
                raise of_status(response.status_code, response.headers.get("retry-after"))
            return parse(await read_capped(response, self.max_answer))
        finally:
            await response.aclose()
            del response.stream  # the two hold each other, and their connection, until a collector comes by

    def _pool(self) -> httpx.AsyncClient:
        if self._client is None:
            limits = httpx.Limits(max_connections=self.requests, max_keepalive_connections=self.requests)
            self._client = httpx.AsyncClient(headers=self._headers, timeout=self.timeout, limits=limits)
        return self._client

    async def close(self) -> None:
        """Closes the connections; the next request opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


def checked_address(url: str, path: str) -> str:
    """`url`, with `path` if it has none of its own; a ValueError if nothing can be reached by it."""
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"url must start with http:// or https://, not {url!r}")
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ValueError(f"url {url!r} is not an address ({error})") from None
    if not parsed.host or " " in url or not 0 < (parsed.port or 80) < 65_536:
        raise ValueError(f"url must name a host and, if any, a port below 65536, not {url!r}")
    _, _, rest = url.partition("://")[2].partition("/")
    return url if rest else url.rstrip("/") + path


def bearer(token: str | None) -> dict[str, str]:
    """The header for `token`, without the line break that files end with."""
    token = (token or "").strip()
    if not token.isascii() or not token.isprintable():
        raise ValueError("token must be one line of plain characters")
    return {"Authorization": f"Bearer {token}"} if token else {}
