"""RoVR for TRL's RLOOTrainer: its leave-one-out advantages replaced by bounded credit, everything else left alone.

RLOO's weight is the exact ratio of a response, the exponential of a *sum* of log-ratios: there is no location to estimate, so
the ratio channel has no place here. Its KL penalty is part of the reward, and therefore of what gets credit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from accelerate.utils import gather
from torch import Tensor
from trl.trainer.rloo_config import RLOOConfig
from trl.trainer.rloo_trainer import RLOOTrainer

from rovrl.config import RewardChannel
from rovrl.integrations.hf import total
from rovrl.integrations.trl.checks import (
    ADVANTAGE_NAMES,
    check_advantage,
    check_inputs,
    check_rewards,
    warn_of_fallback,
)
from rovrl.integrations.trl.config import ROVR, mapping, run_without_accelerator
from rovrl.integrations.trl.trainer import CreditedTrainer, RewardTransform


@dataclass
class RoVRRLOOConfig(RLOOConfig):
    """Configuration of `RoVRRLOOTrainer`: every field of TRL's RLOOConfig, plus the reward channel; None switches it off."""

    _VALID_DICT_FIELDS = [*RLOOConfig._VALID_DICT_FIELDS, "reward_channel"]  # noqa: RUF012

    reward_channel: dict[str, Any] | str | RewardChannel | None = field(
        default_factory=dict,
        metadata={"help": "Fields of RewardChannel as a dict; {} is the paper's setting, none is TRL's own advantage."},
    )
    advantage: str = field(
        default="credit", metadata={"help": f"What the reward channel computes: {', '.join(ADVANTAGE_NAMES)}."}
    )

    credit_per_function = False
    ratio_channel = None

    def __post_init__(self) -> None:
        self.reward_channel = RewardChannel.fields_of("reward_channel", self.reward_channel)
        run_without_accelerator(self)
        super().__post_init__()
        channel = self.reward_settings
        check_advantage(self, channel)
        if channel is None:
            return
        for name, off in (("reward_clip_range", None), ("normalize_advantages", False)):
            if getattr(self, name) != off:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} would be ignored: the reward channel bounds and scales by itself. Leave "
                    "it out, or set reward_channel=None for TRL's own advantage"
                )
        if self.advantage in ("credit", "center") and self.process_index == 0:
            warn_of_fallback(channel, self.num_generations or 0)

    @property
    def reward_settings(self) -> RewardChannel | None:
        """The reward channel, checked; None if it is off."""
        return None if self.reward_channel is None else RewardChannel.from_dict(mapping("reward_channel", self))


class RoVRRLOOTrainer(CreditedTrainer, RLOOTrainer):
    """TRL's RLOOTrainer with the reward channel; `reward_transform` as in `RoVRTrainer`."""

    args: RoVRRLOOConfig
    _tag_names = ["trl", "rovr-rloo"]  # noqa: RUF012
    _name = "RoVR-RLOO"
    _paper = ROVR

    def __init__(
        self,
        model: Any,
        reward_funcs: Any,
        args: RoVRRLOOConfig,
        *more: Any,
        reward_transform: RewardTransform | None = None,
        **kwargs: Any,
    ) -> None:
        if not isinstance(args, RoVRRLOOConfig):
            raise TypeError(
                f"RoVRRLOOTrainer needs a RoVRRLOOConfig (with any field of RLOOConfig), not {type(args).__name__}"
            )
        check_rewards(reward_funcs, args.reward_weights)
        check_inputs(model, args, more[0] if more else kwargs.get("train_dataset"), kwargs)
        super().__init__(model, reward_funcs, args, *more, **kwargs)
        self.reward_transform = reward_transform
        self._told: list[Tensor] = []
        self.set_channels(args.reward_settings, None, self.reward_func_names)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self._told = []
        return super()._generate_and_score_completions(inputs)

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        found = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        if not found[0].requires_grad:  # while a generation is made: the policy's, then the reference's
            self._told.append(found[0])
        return found

    def _rewards(self, per_function: Tensor, output: dict[str, Any]) -> tuple[Tensor, Tensor | None]:
        rewards = total(per_function, self.reward_weights)
        if self.beta == 0.0:
            return rewards, None
        old, reference = self._told
        penalty: Any = gather(((old - reference) * output["completion_mask"]).sum(-1))
        return rewards - self.beta * penalty.double().cpu(), None
