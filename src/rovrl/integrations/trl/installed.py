"""The installed TRL, if it is one that the contract test (tests/integration/trl/test_contract.py) passed with."""

from __future__ import annotations

from rovrl.errors import RovrlError, require

for _needed in ("transformers", "accelerate", "datasets", "trl"):
    require(_needed, extra="train")

import trl  # noqa: E402 - after the check that says how to install it
from packaging.version import Version  # noqa: E402
from trl.trainer.grpo_config import GRPOConfig  # noqa: E402
from trl.trainer.grpo_trainer import GRPOTrainer  # noqa: E402

__all__ = ["TESTED_TRL", "GRPOConfig", "GRPOTrainer", "check_trl"]

TESTED_TRL = ("1.8", "1.17")
"""Tested from the first up to, not including, the second."""


def check_trl(version: str, tested: tuple[str, str] = TESTED_TRL, what: str = "rovrl's trainer") -> None:
    """A RovrlError if `version` of TRL is outside the tested range: its loss may have changed under the hooks."""
    first, beyond = tested
    if not Version(first) <= Version(version) < Version(beyond):
        raise RovrlError(
            f"trl {version} is installed, and {what} is tested with trl {first} up to (not including) "
            f"{beyond}: pip install 'trl>={first},<{beyond}'"
        )


check_trl(trl.__version__)
