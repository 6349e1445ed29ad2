"""Puts our trainer in the place of ms-swift's, in the table from which `swift rlhf` takes it; or says why not."""

from __future__ import annotations

import sys

from rovrl.errors import RovrlError
from rovrl.integrations.environment import channels
from rovrl.integrations.versions import check_engine

TESTED_MS_SWIFT = ("4.6", "4.7")
"""Tested from the first up to, not including, the second."""
TRAINER = "rovrl.integrations.ms_swift.trainer.RoVRTrainer"


def check_ms_swift() -> str:
    """The installed version of ms-swift; a RovrlError if there is none, or one with which nothing was tested."""
    return check_engine("ms-swift", TESTED_MS_SWIFT, "msgspec")


def register() -> None:
    """Makes `--rlhf_type grpo` build `RoVRTrainer`; settings that are wrong, and Megatron, are refused here."""
    check_ms_swift()
    channels()
    if any(name.startswith("swift.megatron") for name in sys.modules):
        raise RovrlError(
            "ms-swift's Megatron trainers do not take rovrl's channels, so nothing would change: use `swift rlhf`, or leave "
            "--external_plugins out"
        )
    from swift.trainers.trainer_factory import TrainerFactory  # pyright: ignore[reportMissingImports]

    TrainerFactory.TRAINER_MAPPING["grpo"] = TRAINER
