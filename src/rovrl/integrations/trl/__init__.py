"""RoVR-GSPO on TRL: `RoVRConfig` and `RoVRTrainer`, subclasses of TRL's `GRPOConfig` and `GRPOTrainer`; the same for RLOO."""

from rovrl.integrations.trl.config import RoVRConfig
from rovrl.integrations.trl.installed import TESTED_TRL
from rovrl.integrations.trl.rewards import RewardTransform
from rovrl.integrations.trl.rloo import RoVRRLOOConfig, RoVRRLOOTrainer
from rovrl.integrations.trl.trainer import RoVRTrainer

__all__ = ["TESTED_TRL", "RewardTransform", "RoVRConfig", "RoVRRLOOConfig", "RoVRRLOOTrainer", "RoVRTrainer"]
