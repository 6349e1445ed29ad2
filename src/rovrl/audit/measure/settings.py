"""What the groups of a step are measured with: the run's own settings and blocks from its records, else as in training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rovrl.audit.arrays import Array, Counts
from rovrl.audit.read.rollouts import Rollouts
from rovrl.config import RewardChannel
from rovrl.credit import FORMULAS
from rovrl.errors import RovrlError
from rovrl.groups import Partition, guarded, partition
from rovrl.robust.blocks import Blocks
from rovrl.robust.location import reference_parts
from rovrl.robust.scale import LaggedScale
from rovrl.scales import channel_for_step, needs_scale


@dataclass(frozen=True)
class Settings:
    """The channel with every number filled in, and the blocks of its groups; estimators of finite rewards [group, n]."""

    channel: RewardChannel
    blocks: tuple[Blocks, ...] = ()
    """The run's own partitions, where its records hold them; a group of another size is cut as by a fixed seed."""

    def partition(self, size: int) -> Partition:
        """The blocks of `size` finite rewards, and whether they are the fallback to a single one."""
        own = next((blocks for blocks in self.blocks if blocks.n == size), None)
        return partition(size, self.channel) if own is None else guarded(own, size, self.channel)

    @torch.no_grad()
    def references(self, rewards: Array) -> tuple[Array, Array]:
        """The references, and the scale ν̂ behind each (0: it needs none)."""
        blocks = self.partition(rewards.shape[1])[0]
        found = reference_parts(torch.from_numpy(np.ascontiguousarray(rewards)), blocks, self.channel)
        return found.reference.numpy(), found.scale.numpy()

    @torch.no_grad()
    def credit(self, rewards: Array) -> Array:
        """The bounded credit, eq:credit_advantage."""
        blocks = self.partition(rewards.shape[1])[0]
        return FORMULAS["credit"](
            torch.from_numpy(np.ascontiguousarray(rewards)), blocks, self.channel
        ).advantages.numpy()


BySteps = dict[int, Settings]
"""Step -> settings; one entry under -1 if they are equal for all steps."""


def settings_of(by_step: BySteps, step: int) -> Settings:
    """The settings of one step."""
    return by_step[-1] if -1 in by_step else by_step[step]


def sharing_settings(step: Counts, by_step: BySteps) -> Iterator[tuple[Settings, NDArray[np.int64] | slice]]:
    """The groups that share settings, with them."""
    if -1 in by_step:
        yield by_step[-1], slice(None)
        return
    for number, groups in _places(step):
        yield by_step[number], groups


def settings_by_step(rollouts: Rollouts, sizes: Sequence[int], channel: RewardChannel) -> BySteps:
    """The settings of a run that logged none: scales of earlier steps where they are "lagged" or "adaptive", as in training."""
    if not any(needs_scale(channel, partition(size, channel)[0]) for size in sizes):
        return {-1: Settings(channel)}
    lagged, found = LaggedScale(), {}
    group = np.repeat(np.arange(rollouts.groups), rollouts.size)
    for step, rows in _places(rollouts.step[group]):
        found[step] = Settings(channel_for_step(channel, lagged, torch.from_numpy(rollouts.reward[rows]), group[rows]))
    return found


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


def _places(step: Counts) -> Iterator[tuple[int, Counts]]:
    """(step, where it stands), ascending."""
    order = np.argsort(step, kind="stable")
    numbers, first = np.unique(step[order], return_index=True)
    yield from zip(numbers.tolist(), np.split(order, first[1:]), strict=True)
