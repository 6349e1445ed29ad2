"""RoVRAsyncConfig: TRL's AsyncGRPOConfig with GSPO's clip and the two channels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rovrl.config import RatioChannel, RewardChannel
from rovrl.integrations.trl.async_grpo.installed import AsyncGRPOConfig
from rovrl.integrations.trl.checks import (
    ADVANTAGE_NAMES,
    PER_FUNCTION,
    SUMMED,
    check_advantage,
    check_aggregation,
    check_clip,
    warn_of_fallback,
    warn_of_wide_clip,
)
from rovrl.integrations.trl.config import TOKEN_CLIP, mapping, run_without_accelerator
from rovrl.loss import CLIP_HIGH, CLIP_LOW


@dataclass
class RoVRAsyncConfig(AsyncGRPOConfig):
    """Configuration of `RoVRAsyncTrainer`: every field of TRL's AsyncGRPOConfig, plus the two channels; None switches one off.

    Without the ratio channel the loss is TRL's own, with a weight per token.
    """

    _VALID_DICT_FIELDS = [*AsyncGRPOConfig._VALID_DICT_FIELDS, "reward_channel", "ratio_channel"]  # noqa: RUF012

    epsilon: float | None = field(
        default=None, metadata={"help": "Lower clip. Default: 3e-4 with the ratio channel (GSPO), 0.2 without."}
    )
    epsilon_high: float | None = field(
        default=None, metadata={"help": "Upper clip. Default: 4e-4 with the ratio channel if epsilon is not given."}
    )
    reward_channel: dict[str, Any] | str | RewardChannel | None = field(
        default_factory=dict,
        metadata={"help": "Fields of RewardChannel as a dict; {} is the paper's setting, none is TRL's own advantage."},
    )
    ratio_channel: dict[str, Any] | str | RatioChannel | None = field(
        default_factory=dict,
        metadata={"help": "Fields of RatioChannel as a dict; {} is the paper's setting, none is a weight per token."},
    )
    advantage: str = field(
        default="credit", metadata={"help": f"What the reward channel computes: {', '.join(ADVANTAGE_NAMES)}."}
    )
    multi_objective_aggregation: str = field(
        default=SUMMED, metadata={"help": f"{SUMMED}: credit of the sum; {PER_FUNCTION}: credit per reward function."}
    )

    steps_per_generation = (
        None  # a generation here is what the queue gives out at once: it is never cut by a checkpoint
    )

    def __post_init__(self) -> None:
        self.reward_channel = RewardChannel.fields_of("reward_channel", self.reward_channel)
        self.ratio_channel = RatioChannel.fields_of("ratio_channel", self.ratio_channel)
        reward, ratio = self.reward_settings, self.ratio_settings
        if self.epsilon is None and self.epsilon_high is None and ratio is not None:
            self.epsilon_high = CLIP_HIGH
        if self.epsilon is None:
            self.epsilon = TOKEN_CLIP if ratio is None else CLIP_LOW
        check_clip(self.epsilon, self.epsilon_high)
        run_without_accelerator(self)
        super().__post_init__()
        check_advantage(self, reward)
        check_aggregation(self)
        if ratio is not None:
            warn_of_wide_clip(self.epsilon, self.epsilon_high)
        if reward is not None and self.advantage in ("credit", "center") and self.process_index == 0:
            warn_of_fallback(reward, self.num_generations)

    @property
    def reward_settings(self) -> RewardChannel | None:
        """The reward channel, checked; None if it is off."""
        return None if self.reward_channel is None else RewardChannel.from_dict(mapping("reward_channel", self))

    @property
    def ratio_settings(self) -> RatioChannel | None:
        """The ratio channel, checked; None if it is off."""
        return None if self.ratio_channel is None else RatioChannel.from_dict(mapping("ratio_channel", self))

    @property
    def credit_per_function(self) -> bool:
        """Whether each reward function gets credit of its own, and these are summed up; if not, the sum gets credit."""
        return self.multi_objective_aggregation == PER_FUNCTION

    @property
    def groups_at_once(self) -> int:
        """How many prompts one optimizer step is made of: so many get their credit together."""
        responses = self.per_device_train_batch_size * self.gradient_accumulation_steps * self.world_size
        return max(1, responses // self.num_generations)
