"""A Trainer of transformers with two channels: what TRL's and ms-swift's GRPO trainers are given, and no line of them copied.

The sequence weight is changed by *recentring*: inside the engine's loss the log-probabilities of response i come back
shifted by c_i = SoftRoVR(l_i) - mean(l_i), so that the engine's own mean of the log-ratios l_i is SoftRoVR(l_i), value and
gradient. Clipping, aggregation and the engine's metrics stay its own.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from rovrl import baselines
from rovrl.config import RatioChannel, RewardChannel
from rovrl.diagnostics import metric, weight_metrics
from rovrl.integrations.hf.state import ResumableTrainer
from rovrl.loss import MAX_LOG_WEIGHT
from rovrl.robust.kernels import compiled
from rovrl.weight import gspo_mean, soft_rovr

WEIGHTS = {"soft_rovr": lambda log_ratios, mask, channel, _: soft_rovr(log_ratios, mask, channel), **baselines.WEIGHTS}
UNCLIPPED_LOSSES = ("sapo",)
DISAGREEMENT_LIMIT = 0.5
"""rovr/weight_disagreement above this is reported to the user: the clip no longer sees most of what the policy did."""
RECENT = 8
"""Over how many batches it is averaged for that: a single one may lie above in a healthy run."""

logger = logging.getLogger("rovrl")


class RobustTrainer(ResumableTrainer):
    """What goes before an engine's GRPO trainer in the order of classes: channels, recentring, metrics, state.

    The engine brings `loss_type`, `epsilon_low`, `epsilon_high`, `_metrics` and `reward_func_names`.
    """

    ratio_channel: RatioChannel | None = None
    loss_type: str
    epsilon_low: float
    epsilon_high: float
    _metrics: dict[str, Any]

    def set_channels(self, reward: RewardChannel | None, ratio: RatioChannel | None, functions: Sequence[str]) -> None:
        """Called once the engine's trainer is built; a channel that is None leaves the engine's own statistic."""
        self.begin_run(reward, functions)
        self.ratio_channel = ratio
        self._disagreements: deque[float] = deque(maxlen=RECENT)
        self._warned = False

    def add_metrics(self, found: dict[str, float]) -> None:
        """Among the engine's own, for training or evaluation."""
        for name, value in found.items():
            self._metrics["train" if self.is_training else "eval"][name].append(value)

    def shift(self, log_probs: Tensor, old: Tensor | None, mask: Tensor, advantages: Tensor, weight: str) -> Tensor:
        """c = robust log weight - mean log-ratio, [response, 1]; `old` is None where the policy has not moved yet.

        Gradient: that of both, into `log_probs`.
        """
        assert self.ratio_channel is not None
        log_ratios = log_probs - (log_probs.detach() if old is None else old)
        mean = gspo_mean(log_ratios, mask)
        with compiled():
            log_weight = WEIGHTS[weight](log_ratios, mask, self.ratio_channel, advantages).clamp(max=MAX_LOG_WEIGHT)
        if old is not None:
            clip = None if self.loss_type in UNCLIPPED_LOSSES else (self.epsilon_low, self.epsilon_high)
            sum_over_ranks: Any = self.accelerator.reduce
            self.add_metrics(weight_metrics(log_weight, mean, advantages, mask.any(-1), clip, sum_over_ranks))
        return (log_weight - mean).unsqueeze(-1)

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """The engine's log, with one warning per run when the robust weight hides most of what the policy does."""
        self._disagreements.extend(self._metrics["train"].get(metric("weight_disagreement"), []))
        recent = sum(self._disagreements) / max(len(self._disagreements), 1)
        if recent > DISAGREEMENT_LIMIT and not self._warned:
            self._warned = True
            self.warn(
                f"{metric('weight_disagreement')} is {recent:.2f}: the robust weight differs from the mean log-ratio by more "
                "than half of it, so the clip no longer sees most of what the policy does. Lower the learning rate or switch "
                "the channel off (ratio_channel=None); see docs/metrics.md."
            )
        super().log(logs, *args, **kwargs)

    def warn(self, sentence: str) -> None:
        """One warning, from the main process alone."""
        if self.accelerator.is_main_process:
            logger.warning(sentence)

    def warn_if_on_policy(self) -> None:
        """Warns if each response is used before the weights move, so that the ratio channel has nothing to do."""
        if self.ratio_channel is not None and not updates_see_moved_policy(self.args):
            self.warn(
                "This set-up is fully on-policy: each response is used in one optimizer step, before the weights move, so its "
                "log-ratios are all 0 and the ratio channel has nothing to do. Set steps_per_generation above "
                "gradient_accumulation_steps, or num_iterations above 1; or ratio_channel=None."
            )


def updates_see_moved_policy(args: Any) -> bool:
    """Whether a response is used after the weights moved, so that log-ratios are not all 0."""
    cycle = (args.steps_per_generation or 1) * args.num_iterations
    corrected = args.use_vllm and getattr(args, "vllm_importance_sampling_correction", False)
    return args.gradient_accumulation_steps % cycle != 0 or corrected
