"""The reward channel's settings step by step: the run's own from its records, else as in training from the steps before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import Counts
from rovrl.audit.measure.matrix import Matrix
from rovrl.audit.measure.reference import pooled, whole_scales
from rovrl.audit.read.rollouts import Rollouts
from rovrl.config import ADAPTIVE, RewardChannel
from rovrl.errors import RovrlError
from rovrl.partition import Partition, guarded, partition
from rovrl.robust.blocks import Blocks
from rovrl.robust.settings import scale_source

DECAY = 0.9
"""Of the moving average over the steps, as in `rovrl.LaggedScale`."""


@dataclass(frozen=True)
class Settings:
    """What the groups of a step are measured with: the channel with every number filled in, and their blocks."""

    channel: RewardChannel
    blocks: tuple[Blocks, ...] = ()
    """The run's own partitions, where its records hold them; a group of another size is cut as by a fixed seed."""

    def partition(self, size: int) -> Partition:
        """The blocks of `size` finite rewards, and whether they are the fallback to a single one."""
        own = next((blocks for blocks in self.blocks if blocks.n == size), None)
        return partition(size, self.channel) if own is None else guarded(own, size, self.channel)


BySteps = dict[int, Settings]
"""Step -> settings; one entry under -1 if they are equal for all steps."""


def settings_of(by_step: BySteps, step: int) -> Settings:
    """The settings of one step."""
    return by_step[-1] if -1 in by_step else by_step[step]


def own_settings(files: Sequence[Path], steps: set[int]) -> BySteps:
    """What every step of a run was trained with, as its records say; {} where one of the steps does not say it."""
    from rovrl import records  # with Parquet, which other dumps do not need

    found: BySteps = {}
    for file in files:
        with suppress(RovrlError, ValueError, TypeError, AttributeError):  # a damaged note says nothing
            for step, notes in records.read_notes(file, report=lambda _: None):
                if "reward_channel" in notes:
                    found[step] = Settings(RewardChannel.from_dict(notes["reward_channel"]), _blocks(notes))
    return found if steps <= set(found) else {}


def _blocks(notes: Mapping[str, Any]) -> tuple[Blocks, ...]:
    """The partitions of a step; verl's notes hold sizes only."""
    members = [blocks for blocks in notes.get("blocks", {}).values() if blocks and isinstance(blocks[0], list)]
    return tuple(Blocks.of(blocks) for blocks in members)


def channels_by_step(rollouts: Rollouts, matrices: list[Matrix], channel: RewardChannel) -> BySteps:
    """The settings by step for a run that did not log its own; one entry under -1 if no scale of earlier steps is needed."""
    if ADAPTIVE in (channel.credit_bound, channel.credit_floor):
        return _adaptive(rollouts, channel)
    lagged = {n: _is_lagged(n, channel) for n in (matrix.size for matrix in matrices)}
    if not any(lagged.values()):
        return {-1: Settings(channel)}
    scale, small = np.zeros(rollouts.groups), np.zeros(rollouts.groups, dtype=bool)
    for matrix in matrices:
        scale[matrix.place] = whole_scales(matrix.columns.T, channel)
        small[matrix.place] = lagged[matrix.size]
    channels, running = {}, None
    for step, groups in by_step(rollouts.step):
        now = pooled(scale[groups])
        known = now if running is None else running
        if channel.scale_source == "lagged" or small[groups].any():
            channels[step] = Settings(replace(channel, scale_source=max(known, channel.scale_floor)))
        else:
            channels[step] = Settings(channel)
        if now > 0:
            running = now if running is None else DECAY * running + (1 - DECAY) * now
    return channels


def sharing_settings(step: Counts, settings: BySteps) -> Iterator[tuple[Settings, NDArray[np.int64] | slice]]:
    """The groups that share settings, with them."""
    if -1 in settings:
        yield settings[-1], slice(None)
        return
    for number, groups in by_step(step):
        yield settings[number], groups


def by_step(step: Counts) -> Iterator[tuple[int, Counts]]:
    """(step, where it stands), ascending."""
    order = np.argsort(step, kind="stable")
    numbers, first = np.unique(step[order], return_index=True)
    yield from zip(numbers.tolist(), np.split(order, first[1:]), strict=True)


def _is_lagged(size: int, channel: RewardChannel) -> bool:
    return scale_source(partition(size, channel)[0], channel) == "lagged"


def _adaptive(rollouts: Rollouts, channel: RewardChannel) -> BySteps:
    """The spread that adaptive credit is measured in has a solver of its own, which needs torch."""
    import torch

    from rovrl.robust.scale import LaggedScale
    from rovrl.scales import channel_for_step

    lagged, channels = LaggedScale(), {}
    group = np.repeat(np.arange(rollouts.groups), rollouts.size)
    for step, rows in by_step(rollouts.step[group]):
        known = channel_for_step(channel, lagged, torch.from_numpy(rollouts.reward[rows]), group[rows])
        channels[step] = Settings(known)
    return channels
