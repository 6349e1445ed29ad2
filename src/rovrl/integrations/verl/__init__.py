"""RoVR-GSPO on verl: importing this registers the advantage estimator "rovr" and the policy loss "rovr_gspo"."""

from rovrl.integrations.verl.algorithms import (
    AGGREGATION,
    ESTIMATOR,
    LOSS,
    WIDE_CLIP,
    RoVRPolicyLossConfig,
    clip_range,
    ratio_channel,
    register,
    reward_channel,
    rovr_advantages,
    rovr_gspo_loss,
)

__all__ = [
    "AGGREGATION",
    "ESTIMATOR",
    "LOSS",
    "WIDE_CLIP",
    "RoVRPolicyLossConfig",
    "clip_range",
    "ratio_channel",
    "register",
    "reward_channel",
    "rovr_advantages",
    "rovr_gspo_loss",
]
