"""What `--method` names: which channels are on, with which settings; the paper's placement ablation and its rivals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rovrl.config import RewardChannel
from rovrl.errors import RovrlError, did_you_mean

ADAPTIVE = dict(RewardChannel.PRESETS["adaptive"])
GUARDED = dict(RewardChannel.PRESETS["guarded"])
"""Rewards shown to be faults are left out; the rest gets adaptive credit."""


@dataclass(frozen=True)
class Method:
    """One way to turn rewards into advantages and log-ratios into weights."""

    title: str
    reward_channel: Mapping[str, Any] | None = None
    ratio_channel: Mapping[str, Any] | None = None
    advantage: str = "credit"
    """What the reward channel computes: a name in `rovrl.ADVANTAGES` or `rovrl.baselines.ADVANTAGES`."""
    weight: str = "soft_rovr"
    """What the ratio channel computes: SoftRoVR, or a name in `rovrl.baselines.WEIGHTS`."""
    recomputes: bool = False
    """Whether the policy tells the old log-probabilities itself where a copy in another precision sampled."""
    clamp: bool = False
    """Whether the rewards are clamped first: to the known range of `rule`, to a guessed one of `score`."""
    told: bool = False
    """Whether it is told which rewards were corrupted, and leaves those out: a ceiling, since nobody knows that."""
    trainer: Mapping[str, Any] = field(default_factory=dict)
    """Fields of RoVRConfig that the method sets itself."""
    beyond_paper: bool = False
    """Whether it is our channel with settings that the paper does not have."""

    def settings(self) -> dict[str, Any]:
        """The method as fields of RoVRConfig."""
        return {
            "reward_channel": None if self.reward_channel is None else dict(self.reward_channel),
            "ratio_channel": None if self.ratio_channel is None else dict(self.ratio_channel),
            "advantage": self.advantage,
            "weight": self.weight,
            **self.trainer,
        }


PEERS = {
    "winsor": ("winsorised", "winsor"),
    "normal-scores": ("normal scores", "normal_scores"),
    "clipped": ("clipped advantages", "clipped"),
    "median-mad": ("median and MAD", "median_mad"),
    "mc-grpo": ("MC-GRPO", "mc_grpo"),
    "qae": ("QAE", "qae"),
    "shortest-half": ("shortest half", "shortest_half"),
    "rloo": ("RLOO", "rloo"),
    "dr-grpo": ("Dr. GRPO advantages", "dr_grpo"),
    "batch-scale": ("batch scale", "batch_scale"),
}
"""The rivals of the reward channel: name -> title, and its name in `rovrl.baselines.ADVANTAGES`."""
OPEN_CLIP = {"epsilon": 0.9, "epsilon_high": 9.0}
"""No outer clip for GMPO: its clamped tokens keep the weight between exp(-0.4) and exp(0.4) where a clip would act."""
PER_REWARD = {"multi_objective_aggregation": "normalize_then_sum"}
"""Each reward function gets advantages of its own, which are summed."""
CORRECTED = {
    "tis": "token TIS",
    "tis_sequence": "sequence TIS",
    "mis": "sequence MIS",
    "icepop": "IcePop",
    "geometric": "geometric mean",
    "soft_rovr": "SoftRoVR as weight",
    "soft_rovr_reject": "SoftRoVR rejects",
}
"""Rollout corrections: name in `rovrl.ROLLOUT_CORRECTIONS` -> title."""
TOKEN_LEVEL = {"importance_sampling_level": "token", "loss_type": "sapo"}

METHODS: Mapping[str, Method] = {
    "gspo": Method("GSPO"),
    "rovr-adv": Method("RoVR-Adv", reward_channel={}),
    "softrovr": Method("SoftRoVR", ratio_channel={}),
    "softrovr-robust": Method("SoftRoVR, robust units", ratio_channel={"units": "robust"}),
    "rovr-gspo": Method("RoVR-GSPO", reward_channel={}, ratio_channel={}),
    "rovr-gspo-adaptive": Method("RoVR-GSPO, adaptive", reward_channel=ADAPTIVE, ratio_channel={}, beyond_paper=True),
    "rovr-adv-adaptive": Method("RoVR-Adv, adaptive", reward_channel=ADAPTIVE, beyond_paper=True),
    "rovr-gspo-guarded": Method("RoVR-GSPO, guarded", reward_channel=GUARDED, ratio_channel={}, beyond_paper=True),
    "rovr-adv-guarded": Method("RoVR-Adv, guarded", reward_channel=GUARDED, beyond_paper=True),
    "rovr-gspo-told": Method(
        "adaptive, told the faults", reward_channel=ADAPTIVE, ratio_channel={}, told=True, beyond_paper=True
    ),
    "gdpo": Method("GDPO", trainer=PER_REWARD),
    "rovr-gspo-per-reward": Method(
        "RoVR-GSPO, per reward", reward_channel={}, ratio_channel={}, trainer=PER_REWARD, beyond_paper=True
    ),
    "center": Method("center only", reward_channel={}, advantage="center"),
    "loo": Method("leave-one-out credit", reward_channel={}, advantage="loo"),
    "gspo-clamp": Method("GSPO, clamped rewards", clamp=True),
    "softrovr-clamp": Method("SoftRoVR, clamped rewards", ratio_channel={}, clamp=True),
    "rovr-gspo-clamp": Method("RoVR-GSPO, clamped rewards", reward_channel={}, ratio_channel={}, clamp=True),
    **{name: Method(title, reward_channel={}, advantage=peer) for name, (title, peer) in PEERS.items()},
    **{
        f"{name}-softrovr": Method(f"{title}, SoftRoVR", reward_channel={}, ratio_channel={}, advantage=peer)
        for name, (title, peer) in PEERS.items()
    },
    "gspo-recomputed": Method("GSPO, recomputed", recomputes=True),
    **{
        f"gspo-{name.replace('_', '-')}": Method(
            f"GSPO, {title}", recomputes=True, trainer={"rollout_correction": name}, beyond_paper="rovr" in name
        )
        for name, title in CORRECTED.items()
    },
    "gmpo": Method("GMPO", ratio_channel={}, weight="gmpo", trainer=OPEN_CLIP),
    "sapo": Method("SAPO", trainer=TOKEN_LEVEL),
    "trimmed": Method("trimmed mean weight", ratio_channel={}, weight="trimmed"),
    "median-weight": Method("median weight", ratio_channel={}, weight="median"),
}


def chosen(names: str) -> list[str]:
    """The methods of a comma-separated list, in its order and without repetition."""
    wanted = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    unknown = [name for name in wanted if name not in METHODS]
    if unknown or not wanted:
        near = did_you_mean(unknown[0], METHODS) if unknown else ""
        known = f"the methods (several: separated by commas) are {', '.join(METHODS)}"
        raise RovrlError(f"--method {names!r} is not known{near}; {known}")
    return wanted
