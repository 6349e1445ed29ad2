"""RoVRTrainer: ms-swift's GRPOTrainer with two things changed, and no line of it copied.

The advantages replace those of ms-swift after it computed and logged its own; the sequence weight is recentred inside its
loss (hf/trainer.py). Training, rollouts, rewards, clipping, aggregation and its metrics stay ms-swift's.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from accelerate.utils import gather_object
from swift.rlhf_trainers.grpo_trainer import GRPOTrainer  # pyright: ignore[reportMissingImports]
from torch import Tensor

from rovrl.diagnostics import reward_metrics
from rovrl.groups import fallback_sentence
from rovrl.integrations.environment import channels
from rovrl.integrations.hf import RobustTrainer, channel_input
from rovrl.integrations.ms_swift import PER_FUNCTION, check
from rovrl.loss import CLIP_HIGH, CLIP_LOW, WIDE_CLIP


class RoVRTrainer(RobustTrainer, GRPOTrainer):
    """Trainer for RoVR-GSPO on ms-swift. The only changes: the advantages and the sequence weight."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        chosen = channels()
        check(kwargs["args"], chosen)
        self._weighing: Any = None
        self._shift: Tensor | float = 0.0
        super().__init__(*args, **kwargs)
        self.set_channels(chosen.reward, chosen.ratio, self.reward_func_names)
        self.warn_if_on_policy()
        widest = max(self.epsilon_low, self.epsilon_high)
        if self.importance_sampling_level == "sequence" and widest > WIDE_CLIP:
            self.warn(
                f"--epsilon {self.epsilon_low:g} --epsilon_high {self.epsilon_high:g}: a clip range made for token weights "
                f"never acts on a sequence weight; GSPO's is --epsilon {CLIP_LOW:g} --epsilon_high {CLIP_HIGH:g}"
            )
        if chosen.reward is not None and (text := fallback_sentence(chosen.reward, self.num_generations)):
            self.warn(f"--num_generations {self.num_generations} {text}")

    # The reward channel

    def _compute_advantages(self, samples: list[Any], rewards_per_func: Tensor, *others: Any, **more: Any) -> Tensor:
        theirs = super()._compute_advantages(samples, rewards_per_func, *others, **more)
        if self.reward_run is None:
            return theirs
        groups, counted, session = self._sessions(samples, len(rewards_per_func))
        rewards, weights = channel_input(rewards_per_func, self.reward_weights, self.scale_rewards == PER_FUNCTION)
        if self.is_training:
            self.next_generation()
        explain = self.reward_run.explain if self.is_training else self.reward_run.evaluate
        info = explain(rewards[counted], groups, weights=weights)
        self.add_metrics(reward_metrics(info, self.reward_run.functions))
        return info.advantages[session].to(theirs)

    def _sessions(self, samples: list[Any], count: int) -> tuple[list[Any], Tensor, Tensor]:
        """(group of each session, the last row of each, the session of each row) of the gathered rows.

        A multi-turn rollout may have several rows per request, all with one reward: it counts once.
        """
        if not self.dynamic_num_samples:
            rows = torch.arange(count)
            size = self.num_generations if self.is_training else self.num_generations_eval
            return (rows // size).tolist(), rows, rows
        prompts = gather_object([sample.prompt_id for sample in samples])
        requests = gather_object([sample.request_id for sample in samples])
        last = {request: row for row, request in enumerate(requests)}
        numbers = {request: number for number, request in enumerate(last)}
        session = torch.tensor([numbers[request] for request in requests])
        return [prompts[row] for row in last.values()], torch.tensor(list(last.values())), session

    # The ratio channel

    def _compute_loss_and_metrics(self, model: Any, model_inputs: dict[str, Any], grpo_batch: Any) -> Any:
        if self.ratio_channel is None:
            return super()._compute_loss_and_metrics(model, model_inputs, grpo_batch)
        self._weighing = copy.copy(grpo_batch)  # a batch is used again with --num_iterations above 1
        try:
            return super()._compute_loss_and_metrics(model, model_inputs, self._weighing)
        finally:
            self._weighing, self._shift = None, 0.0

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
        log_probs, entropies = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        if self._weighing is None:  # old and reference log-probabilities are left alone
            return log_probs, entropies
        batch, mask = self._weighing, self._weighing.completion_mask.bool()
        if self.overlong_filter:
            mask = mask & ~batch.truncated_mask.bool().unsqueeze(-1)
        advantage = (batch.advantages * mask).sum(-1) / mask.sum(-1).clamp(min=1)
        self._shift = self.shift(log_probs, batch.old_per_token_logps, mask, advantage, "soft_rovr")
        if batch.ref_per_token_logps is not None:  # the KL term compares the two, so it must not see the shift
            batch.ref_per_token_logps = batch.ref_per_token_logps + self._shift
        return log_probs + self._shift, entropies

    def _compute_off_policy_sequence_mask(self, per_token_logps: Tensor, *others: Any, **more: Any) -> Tensor:
        return super()._compute_off_policy_sequence_mask(per_token_logps - self._shift, *others, **more)
