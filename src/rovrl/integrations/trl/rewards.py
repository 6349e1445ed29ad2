"""A transformation of the rewards of one gathered generation that says what it did, and where a reward function failed."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

import rovrl
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


def place_of(error: BaseException) -> str:
    """ ", at FILE:LINE in FUNCTION": the innermost place in code that is neither Python's own nor an installed package's."""
    installed = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})
    ours = str(Path(rovrl.__file__).parent / "integrations")
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not frame.filename.startswith((*installed, ours, "<"))]
    return f", at {theirs[-1].filename}:{theirs[-1].lineno} in {theirs[-1].name}" if theirs else ""
