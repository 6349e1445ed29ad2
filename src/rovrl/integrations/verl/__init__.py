"""RoVR-GSPO on verl: importing this registers the advantage estimator "rovr" and the policy loss "rovr_gspo"."""

from rovrl.errors import require

require("verl", extra="verl")  # before anything of ours that needs what the extra brings

from rovrl.integrations.verl.algorithms import (  # noqa: E402
    AGGREGATION,
    WIDE_CLIP,
    RoVRPolicyLossConfig,
    clip_range,
    register,
    rovr_advantages,
    rovr_gspo_loss,
)
from rovrl.integrations.verl.run import (  # noqa: E402
    ESTIMATOR,
    LOSS,
    ratio_channel,
    reward_channel,
    reward_functions,
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
    "reward_functions",
    "rovr_advantages",
    "rovr_gspo_loss",
]
