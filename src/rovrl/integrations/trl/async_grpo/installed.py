"""TRL's asynchronous GRPO trainer, if it is one that tests/integration/trl/test_async_contract.py passed with."""

from __future__ import annotations

import trl

from rovrl.errors import RovrlError
from rovrl.integrations.trl.installed import check_trl

__all__ = ["TESTED_ASYNC", "AsyncGRPOConfig", "AsyncGRPOTrainer", "check_async_trl"]

TESTED_ASYNC = ("1.16", "1.17")
"""Tested from the first up to, not including, the second: narrower than for the others, since this trainer still changes."""


def check_async_trl(version: str) -> None:
    """A RovrlError if the asynchronous trainer of this version of TRL was not tested."""
    check_trl(version, TESTED_ASYNC, "rovrl's asynchronous trainer")


check_async_trl(trl.__version__)

try:
    from trl.experimental.async_grpo.async_grpo_config import AsyncGRPOConfig
    from trl.experimental.async_grpo.async_grpo_trainer import AsyncGRPOTrainer
except ImportError as error:
    raise RovrlError(f"TRL's asynchronous trainer cannot be imported ({error}): pip install that package") from error
