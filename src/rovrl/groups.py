"""Which responses belong together: groups as they come, and the blocks of a group (alg:rovr_gspo).

Rewards with gaps, ids in any order, ragged sizes: never a reshape. A group whose blocks do not carry the declared budgets falls
back to one block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import Any, Protocol

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rovrl.config import RewardChannel
from rovrl.robust.blocks import Blocks, supports_budget
from rovrl.robust.centers import dense_real


class Column(Protocol):
    """What numpy can read as an array: its own, a column of pandas or polars, ..."""

    def __iter__(self) -> Iterator[Any]:
        """The values one by one."""
        ...

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        """The values."""
        ...


Rewards = Tensor | Sequence[float | int | None] | Sequence[Sequence[float | int | None]] | np.ndarray | Column
"""A tensor, or a list, array or table column of numbers in which None stands for a score that never came."""
GroupIds = Sequence[Any] | np.ndarray | Tensor | Column
Rows = Int[Tensor, "group m"] | None
"""Which responses form each of some groups; None: all of them, one group after the other."""
Bucket = tuple[int, Tensor, Rows]
"""(m, groups [g], rows [g, m]): the groups in which m responses count, and which responses those are."""


def as_rewards(rewards: Rewards) -> Tensor:
    """Rewards as a floating-point tensor; None becomes NaN, integers and lists float64."""
    if isinstance(rewards, Tensor):
        return dense_real(rewards).detach() if rewards.dtype.is_floating_point else dense_real(rewards).double()
    try:
        return torch.from_numpy(np.array(rewards, dtype=np.float64))  # None -> NaN
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"rewards must be numbers, or None where there is no score ({error}); the rewards come first, then the group ids"
        ) from None


def group_codes(group_ids: GroupIds, n: int) -> tuple[Int[Tensor, " n"], int]:
    """For each response the number of its group, in order of first appearance, and the number of groups."""
    if isinstance(group_ids, Tensor):
        group_ids = dense_real(group_ids).detach().cpu()
        if group_ids.shape == (n,) and n and not group_ids.dtype.is_floating_point:
            numbers = group_ids.numpy()
            if (numbers[1:] >= numbers[:-1]).all():  # one group after the other: no list of ids is needed
                codes = np.append(0, np.cumsum(numbers[1:] != numbers[:-1]))
                return torch.from_numpy(codes), int(codes[-1]) + 1
    ids = _listed(group_ids)
    if len(ids) != n:
        raise ValueError(f"group_ids must have one entry per reward ({n}), not {len(ids)}")
    if set(map(type, ids)) - {str, int}:
        ids = [_id(value, place) for place, value in enumerate(ids)]
    codes = dict(zip(dict.fromkeys(ids), count(), strict=False))
    return torch.from_numpy(np.fromiter(map(codes.__getitem__, ids), np.int64, n)), len(codes)


def _listed(group_ids: GroupIds) -> list[Any]:
    """The ids one by one, as Python's own values where an array or a column holds them."""
    if isinstance(group_ids, str | bytes):
        raise ValueError(
            f"group_ids must be one id per response, not the text {group_ids!r}: write [{group_ids!r}] * n"
        )
    as_list = getattr(group_ids, "tolist", None)  # tensors, arrays, columns of pandas
    try:
        return list(group_ids if as_list is None else as_list())
    except TypeError:
        raise ValueError(f"group_ids must be one id per response, not {group_ids!r} alone: write [id] * n") from None


def _id(value: Any, place: int) -> Any:
    """One id as a value that equal ids share: scalars of torch and NumPy as Python's; what has no such value is refused."""
    if getattr(value, "ndim", None) == 0:
        value = value.item()
    if type(value).__module__.startswith("torch") or isinstance(value, list | dict | set | np.ndarray):
        raise ValueError(f"group_ids must be flat, one string or integer per response, not {type(value).__name__}s")
    missing = value is None or type(value).__name__ in ("NAType", "NaTType") or value != value
    number = isinstance(value, float | complex)
    if missing or (number and not (isinstance(value, float) and value.is_integer())):
        swapped = "" if missing else ". Were rewards and group ids swapped?"
        raise ValueError(f"group_ids[{place}] is {value}; every response needs a group id (string or integer){swapped}")
    if type(value).__hash__ in (None, object.__hash__):  # equal to nothing but itself: each would be a group of its own
        raise ValueError(
            f"group_ids[{place}] is a {type(value).__name__}, which only equals itself; every response needs a group id "
            "(string or integer)"
        )
    return value


@dataclass(frozen=True)
class Groups:
    """Which responses belong together: coded once for a batch, whatever its reward functions."""

    ids: Int[Tensor, " n"] | None
    count: int
    width: int = 0
    """The responses of every group, where they are the rows of a matrix (and `ids` None); else 0."""

    @classmethod
    def of(cls, group_ids: GroupIds, like: Tensor) -> Groups:
        """The groups of equal ids, one id per entry of `like`, on its device."""
        code, count = group_codes(group_ids, len(like))
        return cls(code.to(like.device), count)

    @cached_property
    def code(self) -> Int[Tensor, " n"]:
        """The number of each response's group, in the order in which the groups first appear."""
        return torch.arange(self.count).repeat_interleave(self.width) if self.ids is None else self.ids

    def buckets(self, counted: Bool[Tensor, " n"], every: bool) -> list[Bucket]:
        """(m, groups, rows) for every number m ≥ 2 of responses that count, ascending; `every`: all count."""
        if every and self.ids is None:
            whole: list[Bucket] = [(self.width, torch.arange(self.count, device=counted.device), None)]
            return whole if self.width >= 2 and self.count else []
        return list(buckets(counted, self.code.to(counted.device), self.count))

    def matrix(self, x: Float[Tensor, " n"], rows: Rows) -> Float[Tensor, "group m"]:
        """The values of these responses."""
        return x.view(self.count, self.width) if rows is None else x[rows]

    def put(self, x: Float[Tensor, " n"], rows: Rows, values: Float[Tensor, "group m"]) -> None:
        """Writes the values of these responses into `x`."""
        self.matrix(x, rows).copy_(values) if rows is None else x.index_put_((rows,), values)


def buckets(finite: Tensor, group: Tensor, num_groups: int) -> Iterator[tuple[int, Tensor, Tensor]]:
    """(m, groups [g], rows [g, m]) for every number m ≥ 2 of finite responses that occurs, ascending."""
    rows = finite.nonzero().squeeze(-1)
    own = group[rows]
    if bool((own[1:] < own[:-1]).any()):  # else one group comes after the other
        rows = rows[own.argsort(stable=True)]
    sizes = torch.bincount(own, minlength=num_groups)
    starts = sizes.cumsum(0) - sizes
    for m in sizes.unique().tolist():
        if m >= 2:
            groups = (sizes == m).nonzero().squeeze(-1)
            yield m, groups, rows[starts[groups].unsqueeze(-1) + torch.arange(m, device=rows.device)]


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
