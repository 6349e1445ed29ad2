"""The reward channel's settings step by step: lagged and adaptive numbers come from the steps before, as in training."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from rovrl.audit.arrays import Counts
from rovrl.audit.read.rollouts import Rollouts
from rovrl.config import RewardChannel
from rovrl.partition import partition
from rovrl.robust.scale import LaggedScale
from rovrl.scales import channel_for_step, needs_scale


def channels_by_step(rollouts: Rollouts, finite: Counts, channel: RewardChannel) -> dict[int, RewardChannel]:
    """The settings by step; one entry under -1 if they need no scale of earlier steps."""
    sizes = np.unique(finite[finite >= 2]).tolist()
    if not any(needs_scale(channel, partition(n, channel)[0]) for n in sizes):
        return {-1: channel}
    lagged, channels = LaggedScale(), {}
    group = np.repeat(np.arange(rollouts.groups), rollouts.size)
    for step in np.unique(rollouts.step).tolist():
        rows = rollouts.step[group] == step
        rewards = torch.from_numpy(rollouts.reward[rows])
        channels[step] = channel_for_step(channel, lagged, rewards, group[rows])
    return channels


def sharing_settings(
    step: Counts, channels: dict[int, RewardChannel]
) -> Iterator[tuple[RewardChannel, NDArray[np.int64] | slice]]:
    """The groups that share settings, with them."""
    if -1 in channels:
        yield channels[-1], slice(None)
        return
    for number in np.unique(step).tolist():
        yield channels[number], np.flatnonzero(step == number)
