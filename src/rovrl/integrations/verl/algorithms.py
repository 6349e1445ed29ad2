"""RoVR-GSPO on verl: the advantage estimator "rovr" and the policy loss "rovr_gspo", registered by importing this module.

verl loads it by itself in every process (see plugin.py). A run needs

    algorithm.adv_estimator=rovr  actor_rollout_ref.actor.policy_loss.loss_mode=rovr_gspo

and, for settings other than the paper's, `+algorithm.rovr.<field of RewardChannel>` and a `RoVRPolicyLossConfig`.
docs/verl.md has the whole of it; `rovrl doctor --engine verl` checks a run before it starts.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rovrl.config import RolloutCorrection
from rovrl.diagnostics import WEIGHT_METRICS, metric, rollout_metrics, weight_metrics
from rovrl.errors import require
from rovrl.integrations.verl import records as verl_records
from rovrl.integrations.verl.run import (
    ESTIMATOR,
    LOSS,
    VerlRun,
    check_run,
    ratio_channel,
    reward_channel,
    reward_functions,
    rollout_correction,
)
from rovrl.integrations.verl.step import Step, current_step, listen, mend_value_head
from rovrl.loss import CLIP_HIGH, CLIP_LOW, WIDE_CLIP, clipped_objective
from rovrl.robust.kernels import compiled
from rovrl.rollout import rollout_weights
from rovrl.weight import gspo_mean, soft_rovr

require("verl", extra="verl")

from verl.trainer.ppo.core_algos import (  # noqa: E402
    ADV_ESTIMATOR_REGISTRY,
    POLICY_LOSS_REGISTRY,
    agg_loss,
)
from verl.workers.config import PolicyLossConfig  # noqa: E402

mend_value_head()

AGGREGATION = "seq-mean-token-mean"
"""The mean over sequences of eq:gspo_objective; verl's default, token-mean, weighs a response by its length."""

logger = logging.getLogger("rovrl")


@dataclass
class RoVRPolicyLossConfig(PolicyLossConfig):
    """verl's PolicyLossConfig with RatioChannel's fields in `rovr`; a wrong field or value is refused at start-up.

    With `record_dir` (on a file system that driver and workers share) the token log-ratios of every `record_every`-th
    step are kept, at most `record_megabytes` per rank; `python -m rovrl.records.join` joins them.
    """

    loss_mode: str = LOSS
    rovr: dict[str, Any] = field(default_factory=dict)
    record_dir: str | None = None
    record_every: int = 1
    record_megabytes: float = 512.0

    def __post_init__(self) -> None:
        ratio_channel(self)
        if not (isinstance(self.record_every, int) and self.record_every >= 1):
            raise ValueError(
                f"policy_loss.record_every must be a whole number of at least 1, not {self.record_every!r}"
            )
        if not self.record_megabytes > 0:
            raise ValueError(f"policy_loss.record_megabytes must be positive, not {self.record_megabytes!r}")


@torch.no_grad()
def rovr_advantages(
    token_level_rewards: Tensor,
    response_mask: Tensor,
    index: np.ndarray | None = None,
    config: Any = None,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """(advantages, returns), both [response, token]: eq:credit_advantage on groups of equal `index`, over the mask.

    A response without a valid token (padding, rejected) and a reward that is not finite count as unscored: advantage
    0, and no influence on the group. So do groups with fewer than two scored responses. A session with several rows counts
    once, and all its rows get its advantage. With `gdpo_reward_keys` each reward function has credit of its own. With
    `rovr_rollout` the advantages, not the returns, carry the weights of the rollout correction.
    """
    if index is None:
        raise ValueError("adv_estimator=rovr needs the uid of each response's prompt, and the batch has none")
    step, functions = current_step(), reward_functions(config)
    rows = response_mask.bool().any(-1).nonzero().squeeze(-1).cpu().numpy()
    counted, session = (rows, np.arange(len(rows))) if step is None else step.sessions(rows)
    rewards, weights = token_level_rewards.double().sum(-1)[counted], None
    if functions is not None:
        if step is None:
            raise ValueError("algorithm.gdpo_reward_keys needs verl's default trainer (trainer.use_v1=True)")
        rewards, weights = step.reward_fields(counted, functions.names).to(rewards.device), functions.weights
    run = VerlRun.of(config)
    run.reward_run.functions = () if functions is None else functions.names
    result = run.explain(reward_channel(config), rewards, np.asarray(index, dtype=object)[counted], weights)
    if step is not None:
        step.metrics.update(run.reward_run.metrics())
    scalars = torch.zeros(len(response_mask), dtype=torch.float64, device=response_mask.device)
    scalars[rows] = result.advantages.double()[session]
    advantages = scalars.to(token_level_rewards.dtype).unsqueeze(-1) * response_mask
    correction = rollout_correction(config)
    if correction is None:
        return advantages, advantages
    if step is None:
        raise ValueError("algorithm.rovr_rollout needs verl's default trainer (trainer.use_v1=True)")
    # weights are at least 0, and the clipped objective of w A is w times that of A: they may go into the advantages
    return _rollout_weights(step, response_mask, correction).to(advantages) * advantages, advantages


def _rollout_weights(step: Step, response_mask: Tensor, correction: RolloutCorrection) -> Tensor:
    mask = response_mask.bool()
    log_ratios = step.log_ratios(response_mask.shape[-1]).to(response_mask.device)
    weights = rollout_weights(log_ratios, mask, correction)
    step.metrics.update(rollout_metrics(weights, log_ratios, mask))
    return weights


def rovr_gspo_loss(
    old_log_prob: Tensor,
    log_prob: Tensor,
    advantages: Tensor,
    response_mask: Tensor,
    loss_agg_mode: str = AGGREGATION,
    config: Any = None,
    rollout_is_weights: Tensor | None = None,
) -> tuple[Tensor, dict[str, float]]:
    """(loss, metrics) of one micro-batch [response, token]: -g(e^m, A) of eq:gspo_objective with m by SoftRoVR.

    Gradient: through m into `log_prob`, each token by its influence; none through advantages and rollout weights.
    verl's `agg_loss` takes the mean, so that micro-batches and ranks change nothing. A row without valid tokens adds 0.
    """
    low, high = clip_range(config)
    _explain_once(loss_agg_mode, low, high)
    mask = response_mask.bool()
    with torch.autocast(device_type=log_prob.device.type, enabled=False):
        log_ratios = torch.where(mask, log_prob.float() - old_log_prob.float(), 0.0)
        with compiled():
            log_weight = soft_rovr(log_ratios, mask, ratio_channel(config.policy_loss))
        per_token = log_weight.unsqueeze(-1).expand_as(log_ratios)
        losses = -clipped_objective(per_token, torch.where(mask, advantages.float(), 0.0), low, high)
        if rollout_is_weights is not None:
            losses = losses * rollout_is_weights.float()
        loss = agg_loss(loss_mat=losses, loss_mask=mask, loss_agg_mode=loss_agg_mode, **config.global_batch_info)
    verl_records.record(config, log_ratios, mask, old_log_prob, advantages, (low, high))
    return loss, _metrics(log_ratios, log_weight, mask, advantages, low, high)


def clip_range(config: Any) -> tuple[float, float]:
    """(low, high) of an actor's config: the clip is to [1 - low, 1 + high]."""
    low = config.clip_ratio if config.clip_ratio_low is None else config.clip_ratio_low
    high = config.clip_ratio if config.clip_ratio_high is None else config.clip_ratio_high
    return min(low, 1 - 2**-24), high  # a weight is positive: a band that reaches below 0 has no lower end


def register() -> None:
    """Makes both names known to verl; doing it again changes nothing."""
    ours: list[tuple[dict[str, Any], str, Any]] = [
        (ADV_ESTIMATOR_REGISTRY, ESTIMATOR, rovr_advantages),
        (POLICY_LOSS_REGISTRY, LOSS, rovr_gspo_loss),
    ]
    for registry, name, function in ours:
        taken = registry.setdefault(name, function)
        if taken.__module__ != function.__module__:
            raise ValueError(f"verl already knows a {name!r}, from {taken.__module__}: rovrl does not replace it")
    listen(check_run)


@torch.no_grad()
def _metrics(
    log_ratios: Tensor, log_weight: Tensor, mask: Tensor, advantages: Tensor, low: float, high: float
) -> dict[str, float]:
    """Means over the responses with a valid token; verl takes the mean over micro-batches and ranks.

    verl refuses a number that only some micro-batches have: what says nothing about one is 0 there.
    """
    mean = gspo_mean(log_ratios, mask)
    advantage = (advantages * mask).sum(-1) / mask.sum(-1).clamp(min=1)
    found = weight_metrics(log_weight, mean, advantage, mask.any(-1), (low, high))
    ours = dict.fromkeys(map(metric, WEIGHT_METRICS), 0.0) | found
    return {
        "actor/pg_clipfrac": ours[metric("clip_upper")] + ours[metric("clip_lower")],
        "actor/pg_clipfrac_lower": 0.0,  # verl's name for the dual clip, which GSPO does not have
        "actor/ppo_kl": -float(log_ratios.sum() / mask.sum().clamp(min=1)),
        **{f"actor/{name}": value for name, value in ours.items()},
    }


@cache
def _explain_once(loss_agg_mode: str, low: float, high: float) -> None:
    if os.environ.get("RANK", "0") != "0":
        return
    if loss_agg_mode != AGGREGATION:
        logger.warning(
            f"actor.loss_agg_mode={loss_agg_mode} does not weigh responses equally, as the method's objective does "
            f"(token-mean: by their length); it is honoured. The method is actor.loss_agg_mode={AGGREGATION}"
        )
    if max(low, high) > WIDE_CLIP:
        logger.warning(
            f"the clip range {low:g} / {high:g} is made for token weights and never acts on a sequence weight; "
            f"the method's is actor.clip_ratio_low={CLIP_LOW:g} actor.clip_ratio_high={CLIP_HIGH:g}"
        )


register()
