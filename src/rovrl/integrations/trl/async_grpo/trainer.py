"""RoVRAsyncTrainer: TRL's AsyncGRPOTrainer with both channels, and no line of it copied.

TRL's loss has a weight per token, the exponential of log π - log π_rollout. The ratio channel gives it the same one for all
tokens of a response, SoftRoVR of their log-ratios, by handing TRL's own loss a model that says so; packing, clipping, the mean
over tokens and the metrics stay TRL's. The advantages are replaced where the trainer takes the responses in (groups.py).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rovrl import baselines
from rovrl.diagnostics import reward_metrics, weight_metrics
from rovrl.errors import RovrlError
from rovrl.integrations.hf.rewards import channel_input
from rovrl.integrations.hf.trainer import RobustTrainer
from rovrl.integrations.trl.async_grpo.config import RoVRAsyncConfig
from rovrl.integrations.trl.async_grpo.groups import Conversation, CreditedQueue
from rovrl.integrations.trl.async_grpo.installed import AsyncGRPOTrainer
from rovrl.integrations.trl.card import ROVR
from rovrl.integrations.trl.checks import check_rewards
from rovrl.loss import MAX_LOG_WEIGHT
from rovrl.robust.kernels import compiled
from rovrl.run import RewardRun
from rovrl.weight import soft_rovr_packed

TOTAL, BY_FUNCTION = "reward", "rewards/"
"""Under which names TRL's rollout workers tell the rewards of a response."""
PLACE, OLD, CREDIT, RESPONSE = "token_index", "old_log_probs", "advantages", "segment_id"
"""TRL's names for what a packed row tells of each trained token."""


class RoVRAsyncTrainer(RobustTrainer, AsyncGRPOTrainer):
    """TRL's AsyncGRPOTrainer with the reward channel and the ratio channel."""

    args: RoVRAsyncConfig
    loss_type = "dapo"  # what TRL calls a mean over all tokens
    num_iterations = 1
    _step = 0
    _tag_names = ["trl", "rovr-async-gspo"]  # noqa: RUF012
    _name = "RoVR-GSPO (asynchronous)"
    _paper = ROVR

    def __init__(self, model: Any, reward_funcs: Any = None, args: Any = None, *more: Any, **kwargs: Any) -> None:
        if not isinstance(args, RoVRAsyncConfig):
            raise TypeError(
                f"RoVRAsyncTrainer needs a RoVRAsyncConfig (with any field of AsyncGRPOConfig), not {type(args).__name__}"
            )
        check_rewards(reward_funcs, None)
        super().__init__(model, reward_funcs, args, *more, **kwargs)
        self.set_channels(args.reward_settings, args.ratio_settings, ())
        if self.reward_run is not None and self.rollout_queue is not None:
            self.rollout_queue: Any = CreditedQueue(
                self.rollout_queue, self._credit, args.num_generations, args.groups_at_once
            )

    # The reward channel

    def _credit(self, groups: list[list[Conversation]]) -> None:
        """Puts our advantages onto the rows of these groups; a response in several pieces counts once."""
        run = self.reward_run
        assert isinstance(run, RewardRun)
        responses = [rows for group in groups for rows in group]
        told = [rows[0].metrics for rows in responses]
        ids = [i for i, group in enumerate(groups) for _ in group]
        rewards, weights = self._rewards(told, run)
        self.next_generation()
        method: Any = baselines.ADVANTAGES.get(self.args.advantage, self.args.advantage)
        info = run.explain(rewards, ids, weights=weights, method=method)
        for rows, advantage in zip(responses, info.advantages.tolist(), strict=True):
            for row in rows:
                row.advantage = advantage
        for name, value in reward_metrics(info, run.functions).items():
            self._metrics["train"][name].append(value)

    def _rewards(self, told: list[dict[str, float]], run: RewardRun) -> tuple[Tensor, Tensor | None]:
        """(rewards, weights) that the channel takes: what the worker says is the total, or each function's own."""
        names = list(dict.fromkeys(name for each in told for name in each if name.startswith(BY_FUNCTION)))
        per_function = self.args.credit_per_function and len(names) > 1
        if not per_function:
            names = [TOTAL]
        missing = next((name for name in names if not any(name in each for each in told)), None)
        if missing is not None:
            raise RovrlError(
                f"the rollout worker told no {missing!r} in the metrics of its responses, so nothing can get credit: "
                "set sample.metrics['reward'] (nan: not scored), or reward_channel=None for the worker's own advantages"
            )
        if not run.functions:
            run.functions = [name.removeprefix(BY_FUNCTION) for name in names]
        table = torch.tensor([[each.get(name, torch.nan) for name in names] for each in told], dtype=torch.float64)
        return channel_input(table, torch.ones(len(names)), per_function)

    # The ratio channel

    def compute_loss(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """TRL's loss; with the ratio channel every trained token has the log-ratio of its response."""
        if self.ratio_channel is None:
            return super().compute_loss(model, inputs, *args, **kwargs)
        trained = inputs[PLACE] >= 0
        places = inputs[PLACE][trained]
        packed = {name: inputs[name][trained] for name in (OLD, CREDIT, RESPONSE)}

        def scored(**given: Any) -> Any:
            outputs = model(**given)
            # A position that several responses share is told once for each, since their weights differ
            outputs.log_probs = self._log_weights(outputs.log_probs.flatten()[places], **packed)
            outputs.entropy = outputs.entropy.flatten()[places]
            return outputs

        each = torch.arange(len(places), device=places.device)
        told = {PLACE: inputs[PLACE].masked_scatter(trained, each), OLD: torch.zeros_like(inputs[OLD])}
        return super().compute_loss(scored, {**inputs, **told}, *args, **kwargs)

    def _log_weights(self, log_probs: Tensor, old_log_probs: Tensor, advantages: Tensor, segment_id: Tensor) -> Tensor:
        """SoftRoVR of each response's log-ratios, at each of its tokens; the tokens of a response lie one behind the other."""
        assert self.ratio_channel is not None
        log_ratios = log_probs - old_log_probs
        lengths = torch.bincount(segment_id)
        ends = lengths.cumsum(0)
        with compiled():
            log_weight = soft_rovr_packed(log_ratios, torch.cat([ends.new_zeros(1), ends]), self.ratio_channel)
        log_weight = log_weight.clamp(max=MAX_LOG_WEIGHT)
        with torch.no_grad():
            zeros = torch.zeros_like(log_weight)
            mean = zeros.index_add(0, segment_id, log_ratios.to(zeros.dtype)) / lengths.clamp(min=1)
            credit = zeros.scatter(0, segment_id, advantages.to(zeros.dtype))
            clip, sum_over_ranks = (self.epsilon_low, self.epsilon_high), self.accelerator.reduce
            self.add_metrics(weight_metrics(log_weight, mean, credit, lengths > 0, clip, sum_over_ranks))  # pyright: ignore[reportArgumentType]
        return log_weight[segment_id]
