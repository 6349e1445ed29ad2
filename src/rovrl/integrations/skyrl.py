"""RoVR-GSPO on SkyRL: `register()` makes the advantage estimator "rovr" and the policy loss "rovr_gspo" known to it.

Call it in your entry point, before the trainer is built, and name both in the run's settings (docs/engines.md).
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from rovrl.integrations import functions
from rovrl.integrations.environment import channels, check_engine

ESTIMATOR, LOSS = "rovr", "rovr_gspo"
TESTED_SKYRL = ("0.3", "0.4")
"""Tested from the first up to, not including, the second."""


def rovr_gspo_loss(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    config: Any,
    loss_mask: Tensor | None = None,
    rollout_logprobs: Tensor | None = None,
) -> tuple[Tensor, dict[str, float]]:
    """(loss, metrics) as SkyRL's `gspo`, with SoftRoVR and its own gradient in place of the mean.

    SkyRL has put the average over tokens and responses into the advantages, so that the loss is a sum.
    """
    from skyrl.backends.skyrl_train.utils.ppo_utils import (  # pyright: ignore[reportMissingImports]
        apply_off_policy_correction,
        reduce_loss,
    )

    mask = log_probs.new_ones(log_probs.shape) if loss_mask is None else loss_mask
    clip = (config.eps_clip_low, config.eps_clip_high)
    losses, metrics = functions.policy_loss(log_probs, old_log_probs, advantages, mask, clip)
    losses, loss_mask, corrected = apply_off_policy_correction(
        losses, old_log_probs, rollout_logprobs, loss_mask, config.off_policy_correction
    )
    clipped = metrics["rovr/clip_upper"] + metrics["rovr/clip_lower"]
    return reduce_loss(losses, loss_mask), {"clip_ratio": clipped, **metrics, **corrected}


def register() -> None:
    """Makes both names known to SkyRL; doing it again changes nothing. What is missing or wrong is a RovrlError."""
    check_engine("skyrl", TESTED_SKYRL)
    channels()
    from skyrl.backends.skyrl_train.utils.ppo_utils import (  # pyright: ignore[reportMissingImports]
        AdvantageEstimatorRegistry,
        PolicyLossRegistry,
    )

    for registry, name, function in (
        (AdvantageEstimatorRegistry, ESTIMATOR, functions.advantages),
        (PolicyLossRegistry, LOSS, rovr_gspo_loss),
    ):
        if name not in registry.list_available():
            registry.register(name, function)
