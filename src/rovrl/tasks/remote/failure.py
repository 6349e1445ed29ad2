"""Why a score is missing, and what may still be done about it."""

from __future__ import annotations

import email.utils
import time

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

_PATH_OR_KEY = "check its address, what it expects and its token"
_LONGEST_WAIT = 60.0


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


def of_status(code: int, retry_after: str | None = None) -> Failure:
    """The failure that a status other than 200 means."""
    detail = f"status {code}"
    if code in (400, 413, 422):
        return Failure("refused", detail, again=False)
    if code in (408, 425, 429, 502, 503, 504):
        return Failure("status", detail, divisible=False, wait=seconds_to_wait(retry_after))
    if code >= 500:
        return Failure("status", detail, wait=seconds_to_wait(retry_after))
    return Failure("refused", f"{detail}: {_PATH_OR_KEY}", again=False, divisible=False, misconfigured=True)


def seconds_to_wait(retry_after: str | None) -> float:
    """The seconds of a Retry-After header, a number or a date, at most 60; 0 for none and for nonsense."""
    if not retry_after:
        return 0.0
    if retry_after.strip().isdecimal():
        return min(float(retry_after.strip()[:6]), _LONGEST_WAIT)
    try:
        until = email.utils.parsedate_to_datetime(retry_after).timestamp()
    except (ValueError, OverflowError):
        return 0.0
    return min(max(until - time.time(), 0.0), _LONGEST_WAIT)
