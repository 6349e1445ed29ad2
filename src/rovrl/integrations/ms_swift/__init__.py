"""RoVR-GSPO on ms-swift: `swift rlhf --rlhf_type grpo --external_plugins $(rovrl plugin ms-swift) ...` (docs/ms-swift.md).

Its trainer takes the place of ms-swift's in the table from which `swift rlhf` takes it.
"""

from __future__ import annotations

import sys
from typing import Any

from rovrl.errors import RovrlError
from rovrl.integrations.environment import RATIO, REWARD, Channels, channels, check_engine

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


PER_FUNCTION = "gdpo"
"""ms-swift's name for rewards normalised function by function: with us, credit per function."""


def check(args: Any, chosen: Channels) -> None:
    """A RovrlError if ms-swift's settings would be ignored by a channel, or would make it do something else."""
    if chosen.reward is not None:
        _check_reward(args)
    if chosen.ratio is not None:
        _check_ratio(args)


def _check_reward(args: Any) -> None:
    off = f"or switch the reward channel off ({REWARD}=none)"
    if args.advantage_estimator != "grpo":
        raise RovrlError(f"--advantage_estimator {args.advantage_estimator} would be ignored: leave it out, {off}")
    if args.scale_rewards not in ("group", PER_FUNCTION):
        raise RovrlError(
            f"--scale_rewards {args.scale_rewards} would be ignored: leave it out (credit of the weighted sum), say "
            f"{PER_FUNCTION} (credit per reward function), {off}"
        )
    if args.kl_in_reward and args.beta:
        raise RovrlError(f"--kl_in_reward true would be ignored: leave it out (the KL goes into the loss), {off}")


def _check_ratio(args: Any) -> None:
    off = f"or switch the ratio channel off ({RATIO}=none)"
    if args.importance_sampling_level != "sequence":
        raise RovrlError(
            f"--importance_sampling_level {args.importance_sampling_level} has no sequence weight for the ratio channel to "
            f"estimate: say sequence, {off}"
        )
    if args.loss_type in ("cispo", "real", "fipo"):
        raise RovrlError(
            f"--loss_type {args.loss_type} uses the token log-ratios beside the sequence weight: use grpo, bnpo, dr_grpo, dapo "
            f"or sapo, {off}"
        )
    if args.use_liger_kernel:
        raise RovrlError(
            f"--use_liger_kernel true replaces the loss that the ratio channel works in: leave it out, {off}"
        )
    if args.sdar_loss_coef:
        raise RovrlError(
            f"--sdar_loss_coef compares log-probabilities that the ratio channel shifts: leave it out, {off}"
        )
    if getattr(args, "sequence_parallel_size", 1) > 1:
        raise RovrlError(f"--sequence_parallel_size above 1 is not tested with the ratio channel: leave it out, {off}")
