"""Three reward functions in place of one: a verifier, a judge and a length penalty; corruption strikes the judge alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from rovrl_paper.lab.rewards import EmbeddedReward

SEVERAL = "several"
"""The reward of a job whose reward is three functions."""
PENALTY = 0.01
"""Per character."""
JUDGE = 1

RewardFunction = Callable[..., list[float]]
Corruption = Callable[[torch.Tensor, int], tuple[torch.Tensor, list[str]]]


def reward_functions(kind: str, reward: EmbeddedReward) -> tuple[list[RewardFunction], Corruption]:
    """(what TRL calls, what corrupts a generation of it): the reward alone, or as one function of three."""
    if kind != SEVERAL:
        return [reward], reward.corrupt

    def right(prompts: Sequence[str], completions: Sequence[str], **_: Any) -> list[float]:
        return [float(reward.score(p, c)) for p, c in zip(prompts, completions, strict=True)]

    def brief(completions: Sequence[str], **_: Any) -> list[float]:
        return [-PENALTY * len(text) for text in completions]

    def corrupt(rewards: torch.Tensor, step: int) -> tuple[torch.Tensor, list[str]]:
        judged, labels = reward.corrupt(rewards[:, JUDGE : JUDGE + 1], step)
        return torch.cat([rewards[:, :JUDGE], judged, rewards[:, JUDGE + 1 :]], 1), labels

    return [right, reward, brief], corrupt
