"""RoVRConfig: GRPOConfig with GSPO's defaults and the two channels; settings that would be ignored are refused.

With the tested versions of TRL, and what the card of a saved model says of the settings.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
import trl
from packaging.version import Version
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from rovrl import __version__
from rovrl.config import OFF, RatioChannel, RewardChannel, RolloutCorrection
from rovrl.errors import RovrlError
from rovrl.integrations.hf import updates_see_moved_policy
from rovrl.integrations.trl.checks import (
    ADVANTAGE_NAMES,
    PER_FUNCTION,
    WEIGHT_NAMES,
    check_clip,
    check_ratio_channel,
    check_reward_channel,
    check_rollout_correction,
    warn_of_fallback,
    warn_of_wide_clip,
)
from rovrl.loss import CLIP_HIGH, CLIP_LOW
from rovrl.rollout import ROLLOUT_CORRECTIONS, named_correction

TESTED_TRL = ("1.8", "1.17")
"""Tested from the first up to, not including, the second."""


def check_trl(version: str, tested: tuple[str, str] = TESTED_TRL, what: str = "rovrl's trainer") -> None:
    """A RovrlError if `version` of TRL is outside the tested range: its loss may have changed under the hooks."""
    first, beyond = tested
    if not Version(first) <= Version(version) < Version(beyond):
        raise RovrlError(
            f"trl {version} is installed, and {what} is tested with trl {first} up to (not including) "
            f"{beyond}: pip install 'trl>={first},<{beyond}'"
        )


check_trl(trl.__version__)

TOKEN_CLIP = 0.2
"""TRL's own epsilon, for token-level losses."""


@dataclass
class RoVRConfig(GRPOConfig):
    """Configuration of `RoVRTrainer`: every field of TRL's GRPOConfig, with GSPO's defaults, plus the two channels.

    `reward_channel` and `ratio_channel` are a `rovrl.RewardChannel` and a `rovrl.RatioChannel`, names of their presets
    ("paper", "adaptive", "guarded"), or dicts of their fields; None switches a channel off, so that both None is plain GSPO.
    """

    _VALID_DICT_FIELDS = [  # noqa: RUF012
        *GRPOConfig._VALID_DICT_FIELDS,
        "reward_channel",
        "ratio_channel",
        "rollout_correction",
    ]

    importance_sampling_level: str = field(
        default="sequence", metadata={"help": "'sequence' (GSPO); 'token' needs ratio_channel off."}
    )
    loss_type: str = field(
        default="grpo", metadata={"help": "TRL's loss; 'grpo' averages over sequences, as GSPO does."}
    )
    epsilon: float | None = field(
        default=None, metadata={"help": "Lower clip. Default: 3e-4 at sequence level (GSPO), 0.2 at token level."}
    )
    epsilon_high: float | None = field(
        default=None, metadata={"help": "Upper clip. Default: 4e-4 at sequence level if epsilon is not given."}
    )
    reward_channel: dict[str, Any] | str | RewardChannel | None = field(
        default_factory=dict,
        metadata={
            "help": "paper, adaptive, guarded, or fields of RewardChannel as a dict; none is TRL's own advantage."
        },
    )
    ratio_channel: dict[str, Any] | str | RatioChannel | None = field(
        default_factory=dict,
        metadata={"help": "paper, or fields of RatioChannel as a dict; none is the plain mean."},
    )
    advantage: str = field(
        default="credit",
        metadata={"help": f"What the reward channel computes: {', '.join(ADVANTAGE_NAMES)}."},
    )
    weight: str = field(
        default="soft_rovr", metadata={"help": f"What the ratio channel computes: {', '.join(WEIGHT_NAMES)}."}
    )
    rollout_correction: dict[str, Any] | str | RolloutCorrection | None = field(
        default=None,
        metadata={
            "help": f"Weights for responses of another engine or precision: {', '.join(ROLLOUT_CORRECTIONS)}, or fields of "
            "RolloutCorrection as a dict; none: TRL's own vllm_importance_sampling_*."
        },
    )
    record_dir: str | None = field(
        default=None, metadata={"help": "Directory for records (one Parquet file per generation); none: no records."}
    )

    def __post_init__(self) -> None:
        self.reward_channel = RewardChannel.fields_of("reward_channel", self.reward_channel)
        self.ratio_channel = RatioChannel.fields_of("ratio_channel", self.ratio_channel)
        self.rollout_correction = _as_correction(self.rollout_correction)
        self._gspo_clip()
        run_without_accelerator(self)
        if getattr(self, "activation_checkpointing", True) is None:  # the new name of what TRL sets by the old one
            self.activation_checkpointing = self.gradient_checkpointing
        super().__post_init__()
        reward, ratio = self.reward_settings, self.ratio_settings
        check_reward_channel(self, reward)
        check_ratio_channel(self, ratio)
        check_rollout_correction(self, self.rollout_settings)
        if reward is not None and self.advantage in ("credit", "center") and self.process_index == 0:
            warn_of_fallback(reward, self.num_generations or 0)

    @property
    def reward_settings(self) -> RewardChannel | None:
        """The reward channel, checked; None if it is off."""
        return None if self.reward_channel is None else RewardChannel.from_dict(mapping("reward_channel", self))

    @property
    def ratio_settings(self) -> RatioChannel | None:
        """The ratio channel, checked; None if it is off."""
        return None if self.ratio_channel is None else RatioChannel.from_dict(mapping("ratio_channel", self))

    @property
    def rollout_settings(self) -> RolloutCorrection | None:
        """The rollout correction, checked; None leaves TRL's own."""
        return None if self.rollout_correction is None else named_correction(self.rollout_correction)

    @property
    def credit_per_function(self) -> bool:
        """Whether each reward function gets credit of its own, and these are summed up; if not, the sum gets credit."""
        return self.multi_objective_aggregation == PER_FUNCTION

    @property
    def updates_see_moved_policy(self) -> bool:
        """Whether a response is used after the weights moved, so that log-ratios are not all 0."""
        return updates_see_moved_policy(self)

    @property
    def method_name(self) -> str:
        """One word for what is trained: the paper's names, and for peers the names of `rovrl.baselines`."""
        reward = None if self.reward_channel is None else self.advantage
        ratio = None if self.ratio_channel is None else self.weight
        named = {
            (None, None): "gspo",
            ("credit", None): "rovr-adv",
            (None, "soft_rovr"): "softrovr",
            ("credit", "soft_rovr"): "rovr-gspo",
        }
        return named.get((reward, ratio)) or "+".join(name for name in (reward, ratio) if name)

    @property
    def record_settings(self) -> dict[str, Any]:
        """What a reader of the records must know about the run, as plain JSON values."""
        names = (
            "num_generations",
            "steps_per_generation",
            "gradient_accumulation_steps",
            "num_iterations",
            "reward_weights",
            "multi_objective_aggregation",
            "importance_sampling_level",
            "loss_type",
            "epsilon",
            "epsilon_high",
            "beta",
            "delta",
            "temperature",
            "learning_rate",
            "seed",
        )
        channels = {
            "reward_channel": self.reward_settings,
            "ratio_channel": self.ratio_settings,
            "rollout_correction": self.rollout_settings,
        }
        return {
            "engine": "trl",
            "method": self.method_name,
            **{name: getattr(self, name) for name in names},
            **{name: None if channel is None else channel.to_dict() for name, channel in channels.items()},
        }

    def _gspo_clip(self) -> None:
        sequence = self.importance_sampling_level == "sequence"
        if self.loss_type == "cispo" and self.epsilon_high is None:
            raise ValueError("epsilon_high must be given with loss_type='cispo', where it caps the weight (TRL: 5.0)")
        if self.epsilon is None and self.epsilon_high is None and sequence:
            self.epsilon_high = CLIP_HIGH
        if self.epsilon is None:
            self.epsilon = CLIP_LOW if sequence else TOKEN_CLIP
        check_clip(self.epsilon, self.epsilon_high)
        if sequence and self.loss_type != "cispo":
            warn_of_wide_clip(self.epsilon, self.epsilon_high)


def run_without_accelerator(config: Any) -> None:
    """TRL turns bfloat16 on by default, which a machine without accelerator refuses, or runs too coarsely to see a clip band
    of 3e-4."""
    if not torch.accelerator.is_available():
        config.use_cpu = True
    if config.use_cpu and config.bf16 is None and not config.fp16:
        config.bf16 = False


def _as_correction(value: Any) -> Any:
    """A rollout correction as its name, a dict of its fields, or None."""
    if isinstance(value, RolloutCorrection):
        return value.to_dict()
    if isinstance(value, str) and value.strip().lower() in OFF:
        return None
    return value


def mapping(name: str, config: Any) -> dict[str, Any]:
    """The channel of that name as the dict of its fields that a config holds, checked to be one."""
    value = getattr(config, name)
    if not isinstance(value, dict):
        raise ValueError(
            f"{name} must be a {name.title().replace('_', '')}, a dict of its fields, or None, not {value!r}"
        )
    return value


ROVR = {
    "title": "Dual-Channel Robust Group-Relative Policy Optimization via Advantage and Sequence-Weight Estimation",
    "citation": """@article{li2026rovrgspo,
    title  = {{Dual-Channel Robust Group-Relative Policy Optimization via Advantage and Sequence-Weight Estimation}},
    author = {Zhongyi Li and Wan Tian and Xiang Xu and Yutian Xiao and Yikun Ban and Yijie Peng and Fuzhen Zhuang},
    year   = 2026,
}""",
}
"""The paper that introduced the channels; it has no number by which the Hub could link it."""
GSPO = {
    "title": "Group Sequence Policy Optimization",
    "id": "2507.18071",
    "citation": """@article{zheng2025gspo,
    title  = {{Group Sequence Policy Optimization}},
    author = {Chujie Zheng and Shixuan Liu and Mingze Li and Xiong-Hui Chen and Bowen Yu and others},
    year   = 2025,
    eprint = {arXiv:2507.18071},
}""",
}
TITLES = {"gspo": "GSPO", "rovr-adv": "RoVR-Adv", "softrovr": "SoftRoVR", "rovr-gspo": "RoVR-GSPO"}


class Card(NamedTuple):
    """The words that TRL puts into the card: trainer name, paper, tags."""

    name: str
    paper: dict[str, str]
    tags: list[str]


def card(config: RoVRConfig) -> Card:
    """What ran: with both channels off it is GSPO, or GRPO at token level, and neither our name nor our paper appears."""
    method = config.method_name
    if method == "gspo" and config.importance_sampling_level == "token":
        return Card(GRPOTrainer._name, dict(GRPOTrainer._paper), ["trl", "grpo"])
    paper = GSPO if method == "gspo" else ROVR
    return Card(TITLES.get(method, method), dict(paper), ["trl", method])


def settings_section(config: RoVRConfig) -> str:
    """The section of the card with everything that decides the method, and the software's citation."""
    settings = json.dumps(config.record_settings, indent=2)
    return f"""
## Method settings

Trained by `rovrl` {__version__} (`{config.method_name}`): null switches a channel off, so that both null is plain GSPO.

```json
{settings}
```

Cite the software as: The rovrl authors, *rovrl: robust group-relative policy optimization*, version {__version__}, 2026.
"""
