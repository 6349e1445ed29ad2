"""Which responses form the blocks of a group, and when the group falls back to one block (alg:rovr_gspo)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rovrl.config import RewardChannel
from rovrl.robust.blocks import Blocks, supports_budget

if TYPE_CHECKING:
    import torch

Partition = tuple[Blocks, bool]
"""Blocks, and whether they are the fallback to a single one."""


def partition(size: int, channel: RewardChannel, generator: torch.Generator | None = None) -> Partition:
    """The balanced blocks for groups of `size`, and whether they fell back to one block (alg:rovr_gspo).

    Drawn from the generator, never from the data. The fallback is the global M-center: budgets undeclared, or not
    supported by this size.
    """
    if channel.num_blocks > size:
        return Blocks.contiguous(size, 1), True
    if channel.partition == "random":
        blocks = Blocks.random(size, channel.num_blocks, generator)
    else:
        blocks = Blocks.contiguous(size, channel.num_blocks)
    return guarded(blocks, size, channel)


def guarded(blocks: Blocks, size: int, channel: RewardChannel) -> Partition:
    """`blocks` if they are the declared number and carry the budgets, else one block; and whether that is a fallback."""
    declared = channel.failure_unit is not None and len(blocks.sizes) == channel.num_blocks
    if supports_budget(blocks.sizes, size, channel.arbitrary_blocks, channel.replaced_per_block, declared):
        return blocks, False
    return Blocks.contiguous(size, 1), True


def could_adapt(channel: RewardChannel) -> bool:
    """Whether corruption could adapt to the partition, which app:implementation asks to be logged.

    Contiguous blocks are known before any reward is made, so that whoever makes the rewards can aim at them. Random ones
    are drawn from a seed that no reward function is given (prop:random_partition).
    """
    return channel.partition != "random"


class Partitions(dict[int, Partition]):
    """Number of responses -> their partition, drawn from the generator when first asked for, then the same for all groups."""

    def __init__(self, channel: RewardChannel, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.channel, self.generator = channel, generator

    def __missing__(self, size: int) -> Partition:
        self[size] = partition(size, self.channel, self.generator)
        return self[size]


class GivenBlocks(Partitions):
    """The caller's blocks for groups of just that many responses; the fallback for a group that lost a member."""

    def __init__(self, channel: RewardChannel, blocks: Blocks) -> None:
        super().__init__(channel)
        self[blocks.n] = guarded(blocks, blocks.n, channel)

    def __missing__(self, size: int) -> Partition:
        return Blocks.contiguous(size, 1), True


def fallback_sentence(
    channel: RewardChannel, size: int, declare_less: str = "reward_channel={'replaced_per_block': 0}"
) -> str:
    """What to say about groups of `size` that fall back although a budget is declared, with the ways out; "" if they do not.

    `declare_less` is how the user's engine writes that setting.
    """
    q, s = channel.arbitrary_blocks, channel.replaced_per_block
    if channel.failure_unit is None or q is None or s is None or not partition(size, channel)[1]:
        return ""
    blocks = max(channel.num_blocks, 2, 2 * q + 1)
    more = "" if blocks == channel.num_blocks else f"num_blocks={blocks} and "
    ways = [f"{more}at least {blocks * (2 * s + 1)} responses per group (the paper: 16)"]
    if s > 0 and not partition(size, replace(channel, replaced_per_block=0))[1]:
        ways.append(f"declare less, {declare_less}")
    return (
        f"in {channel.num_blocks} blocks does not carry the declared budget (q={q}, s={s}), so every group falls back to the "
        f"global M-center; the way out: {', or '.join(ways)}"
    )
