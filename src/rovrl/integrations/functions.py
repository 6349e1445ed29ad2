"""Both channels as plain functions, for an engine that takes an import path or a registered function.

    rovrl.integrations.functions:advantages      rewards and prompt ids of a batch -> advantages per token
    rovrl.integrations.functions:policy_loss     log-probabilities of a batch -> loss, metrics

docs/engines.md says which engine calls what. Settings come from ROVRL_REWARD_CHANNEL and ROVRL_RATIO_CHANNEL. The lagged scale
and the metrics belong to one `RewardRun` per process, `run()`: an engine's checkpoints do not hold it, so save
`run().state_dict()` yourself where a run must resume exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rovrl.diagnostics import WEIGHT_METRICS, metric, weight_metrics
from rovrl.errors import RovrlError
from rovrl.integrations.environment import RATIO, REWARD, channels
from rovrl.loss import CLIP_HIGH, CLIP_LOW, clipped_objective
from rovrl.robust.kernels import compiled
from rovrl.run import RewardRun
from rovrl.weight import gspo_mean, soft_rovr


@cache
def run() -> RewardRun:
    """The run of this process: its metrics, its state, what its latest step did."""
    channel = channels().reward
    if channel is None:
        raise RovrlError(f"{REWARD}=none, and the advantages are rovrl's: name the engine's own estimator instead")
    return RewardRun(channel)


@torch.no_grad()
def advantages(
    token_level_rewards: Tensor, response_mask: Tensor, index: Sequence[Any] | np.ndarray, **_: Any
) -> tuple[Tensor, Tensor]:
    """(advantages, returns), both [response, token]: eq:credit_advantage on groups of equal `index`, over the mask.

    The rewards of a response are summed over its tokens. One without a valid token, and one whose reward is not finite, is
    left out of its group and gets 0.
    """
    valid = response_mask.bool().any(-1)
    rewards = torch.where(valid, token_level_rewards.double().sum(-1), torch.nan)
    found = run().advantages(rewards, index).to(token_level_rewards.dtype).unsqueeze(-1) * response_mask
    return found, found


def policy_loss(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    clip: tuple[float, float] = (CLIP_LOW, CLIP_HIGH),
) -> tuple[Tensor, dict[str, float]]:
    """(-g(e^m, A) of eq:gspo_objective at each token [response, token], metrics), with m by SoftRoVR.

    The engine averages them. Gradient: through m into `log_probs`, each token by its influence; none
    through the advantages.
    """
    channel = channels().ratio
    if channel is None:
        raise RovrlError(f"{RATIO}=none, and the loss is rovrl's: name the engine's own loss instead")
    mask = mask.bool()
    with torch.autocast(device_type=log_probs.device.type, enabled=False):
        log_ratios = torch.where(mask, log_probs.float() - old_log_probs.float(), 0.0)
        with compiled():
            log_weight = soft_rovr(log_ratios, mask, channel)
        credit = torch.where(mask, advantages.float(), 0.0)
        losses = -clipped_objective(log_weight.unsqueeze(-1).expand_as(log_ratios), credit, *clip)
    per_response = credit.sum(-1) / mask.sum(-1).clamp(min=1)
    found = weight_metrics(log_weight, gspo_mean(log_ratios, mask), per_response, mask.any(-1), clip)
    return losses, dict.fromkeys(map(metric, WEIGHT_METRICS), 0.0) | found
