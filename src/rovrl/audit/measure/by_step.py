"""The reward channel's settings step by step: lagged and adaptive numbers come from the steps before, as in training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import Counts
from rovrl.audit.measure.matrix import Matrix
from rovrl.audit.measure.reference import pooled, whole_scales
from rovrl.audit.read.rollouts import Rollouts
from rovrl.config import ADAPTIVE, RewardChannel
from rovrl.partition import partition
from rovrl.robust.settings import scale_source

DECAY = 0.9
"""Of the moving average over the steps, as in `rovrl.LaggedScale`."""


def channels_by_step(rollouts: Rollouts, matrices: list[Matrix], channel: RewardChannel) -> dict[int, RewardChannel]:
    """The settings by step; one entry under -1 if they need no scale of earlier steps."""
    if ADAPTIVE in (channel.credit_bound, channel.credit_floor):
        return _adaptive(rollouts, channel)
    lagged = {n: _is_lagged(n, channel) for n in (matrix.size for matrix in matrices)}
    if not any(lagged.values()):
        return {-1: channel}
    scale, small = np.zeros(rollouts.groups), np.zeros(rollouts.groups, dtype=bool)
    for matrix in matrices:
        scale[matrix.place] = whole_scales(matrix.columns.T, channel)
        small[matrix.place] = lagged[matrix.size]
    channels, running = {}, None
    for step, groups in by_step(rollouts.step):
        now = pooled(scale[groups])
        known = now if running is None else running
        if channel.scale_source == "lagged" or small[groups].any():
            channels[step] = replace(channel, scale_source=max(known, channel.scale_floor))
        else:
            channels[step] = channel
        if now > 0:
            running = now if running is None else DECAY * running + (1 - DECAY) * now
    return channels


def sharing_settings(
    step: Counts, channels: dict[int, RewardChannel]
) -> Iterator[tuple[RewardChannel, NDArray[np.int64] | slice]]:
    """The groups that share settings, with them."""
    if -1 in channels:
        yield channels[-1], slice(None)
        return
    for number, groups in by_step(step):
        yield channels[number], groups


def by_step(step: Counts) -> Iterator[tuple[int, Counts]]:
    """(step, where it stands), ascending."""
    order = np.argsort(step, kind="stable")
    numbers, first = np.unique(step[order], return_index=True)
    yield from zip(numbers.tolist(), np.split(order, first[1:]), strict=True)


def _is_lagged(size: int, channel: RewardChannel) -> bool:
    return scale_source(partition(size, channel)[0], channel) == "lagged"


def _adaptive(rollouts: Rollouts, channel: RewardChannel) -> dict[int, RewardChannel]:
    """The spread that adaptive credit is measured in has a solver of its own, which needs torch."""
    import torch

    from rovrl.robust.scale import LaggedScale
    from rovrl.scales import channel_for_step

    lagged, channels = LaggedScale(), {}
    group = np.repeat(np.arange(rollouts.groups), rollouts.size)
    for step, rows in by_step(rollouts.step[group]):
        channels[step] = channel_for_step(channel, lagged, torch.from_numpy(rollouts.reward[rows]), group[rows])
    return channels
