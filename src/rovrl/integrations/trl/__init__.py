"""RoVR-GSPO on TRL: `RoVRConfig` and `RoVRTrainer`, subclasses of TRL's `GRPOConfig` and `GRPOTrainer`; the same for RLOO."""

from rovrl.errors import require

for _needed in ("transformers", "accelerate", "datasets", "trl"):
    require(_needed, extra="train")  # says how to install it, before anything of ours imports it

from rovrl.integrations.trl.config import TESTED_TRL, RoVRConfig  # noqa: E402
from rovrl.integrations.trl.rloo import RoVRRLOOConfig, RoVRRLOOTrainer  # noqa: E402
from rovrl.integrations.trl.trainer import RewardTransform, RoVRTrainer  # noqa: E402

__all__ = ["TESTED_TRL", "RewardTransform", "RoVRConfig", "RoVRRLOOConfig", "RoVRRLOOTrainer", "RoVRTrainer"]
