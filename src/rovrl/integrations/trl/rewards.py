"""A transformation of the rewards of one gathered generation that says what it did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from rovrl.errors import RovrlError

RewardTransform = Callable[[Tensor, int], tuple[Tensor, Sequence[str]]]
"""(rewards [response, function], generation from 1) -> (rewards, one label per response; "" = untouched)."""


def transformed(transform: RewardTransform, rewards: Tensor, generation: int) -> tuple[Tensor, list[str]]:
    """The transform's rewards and labels, checked."""
    result: Any = transform(rewards.clone(), generation)
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RovrlError("reward_transform must return (rewards, labels)")
    changed, labels = result
    if not isinstance(changed, Tensor) or changed.shape != rewards.shape or len(labels) != len(rewards):
        raise RovrlError(
            f"reward_transform must return rewards of shape {tuple(rewards.shape)} and {len(rewards)} labels, not "
            f"{tuple(getattr(changed, 'shape', ()))} and {len(labels)}"
        )
    return changed.to(rewards), [str(label) for label in labels]
