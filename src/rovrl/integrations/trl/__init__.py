"""RoVR-GSPO on TRL: `RoVRConfig` and `RoVRTrainer`, subclasses of TRL's `GRPOConfig` and `GRPOTrainer`."""

from rovrl.integrations.trl.config import RoVRConfig
from rovrl.integrations.trl.installed import TESTED_TRL
from rovrl.integrations.trl.rewards import RewardTransform
from rovrl.integrations.trl.trainer import RoVRTrainer

__all__ = ["TESTED_TRL", "RewardTransform", "RoVRConfig", "RoVRTrainer"]
