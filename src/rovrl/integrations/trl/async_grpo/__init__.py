"""RoVR-GSPO on TRL's asynchronous GRPO trainer: `RoVRAsyncConfig` and `RoVRAsyncTrainer`.

Not imported by `rovrl.integrations.trl`: TRL calls this trainer experimental, and warns of it.
"""

from rovrl.integrations.trl.async_grpo.config import RoVRAsyncConfig
from rovrl.integrations.trl.async_grpo.installed import TESTED_ASYNC
from rovrl.integrations.trl.async_grpo.trainer import RoVRAsyncTrainer

__all__ = ["TESTED_ASYNC", "RoVRAsyncConfig", "RoVRAsyncTrainer"]
