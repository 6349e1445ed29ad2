"""Groups as they come: rewards with gaps, ids in any order, ragged sizes. Never a reshape."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any, Protocol

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor


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
Bucket = tuple[int, Tensor, Tensor]
"""(m, groups [g], rows [g, m]): the groups in which m responses count, and which responses those are."""


def as_rewards(rewards: Rewards) -> Tensor:
    """Rewards as a floating-point tensor; None becomes NaN, integers and lists float64."""
    if isinstance(rewards, Tensor):
        return rewards.detach() if rewards.dtype.is_floating_point else rewards.double()
    try:
        return torch.from_numpy(np.array(rewards, dtype=np.float64))  # None -> NaN
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"rewards must be numbers, or None where there is no score ({error}); the rewards come first, then the group ids"
        ) from None


def group_codes(group_ids: GroupIds, n: int) -> tuple[Int[Tensor, " n"], int]:
    """For each response the number of its group, in order of first appearance, and the number of groups."""
    if isinstance(group_ids, str | bytes):
        raise ValueError(
            f"group_ids must be one id per response, not the text {group_ids!r}: write [{group_ids!r}] * n"
        )
    if isinstance(group_ids, Tensor) and group_ids.shape == (n,) and n and not group_ids.dtype.is_floating_point:
        numbers = group_ids.detach().cpu().numpy()
        if (numbers[1:] >= numbers[:-1]).all():  # one group after the other: no list of ids is needed
            codes = np.append(0, np.cumsum(numbers[1:] != numbers[:-1]))
            return torch.from_numpy(codes), int(codes[-1]) + 1
    as_list = getattr(group_ids, "tolist", None)  # tensors, arrays, columns of pandas
    ids: list[Any] = list(group_ids) if as_list is None else as_list()
    if len(ids) != n:
        raise ValueError(f"group_ids must have one entry per reward ({n}), not {len(ids)}")
    try:
        codes = dict(zip(dict.fromkeys(ids), count(), strict=False))
    except TypeError:
        raise ValueError(
            f"group_ids must be flat, one string or integer per response, not {type(ids[0]).__name__}s"
        ) from None
    _refuse_what_is_no_id(codes, ids)
    return torch.from_numpy(np.fromiter(map(codes.__getitem__, ids), np.int64, n)), len(codes)


def _refuse_what_is_no_id(distinct: Iterable[Any], ids: list[Any]) -> None:
    for value in distinct:
        missing = value is None or value != value
        if missing or (isinstance(value, float) and not value.is_integer()):
            place = next(i for i, each in enumerate(ids) if each is value or each == value)
            swapped = "" if missing else ". Were rewards and group ids swapped?"
            raise ValueError(
                f"group_ids[{place}] is {value}; every response needs a group id (string or integer){swapped}"
            )


def buckets(finite: Tensor, group: Tensor, num_groups: int) -> Iterator[Bucket]:
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
