"""Groups as they come: rewards with gaps, ids in any order, ragged sizes. Never a reshape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

Rewards = Tensor | Sequence[float | int | None] | np.ndarray
"""A tensor, or a list or array of numbers in which None stands for a score that never came."""
GroupIds = Sequence[Any] | np.ndarray | Tensor


def as_rewards(rewards: Rewards) -> Tensor:
    """Rewards as a floating-point tensor; None becomes NaN, integers and lists float64."""
    if isinstance(rewards, Tensor):
        return rewards.detach() if rewards.dtype.is_floating_point else rewards.double()
    return torch.from_numpy(np.array(rewards, dtype=np.float64))  # None -> NaN


def group_codes(group_ids: GroupIds, n: int) -> tuple[Int[Tensor, " n"], int]:
    """For each response the number of its group, in order of first appearance, and the number of groups."""
    if isinstance(group_ids, str | bytes):
        raise ValueError(
            f"group_ids must be one id per response, not the text {group_ids!r}: write [{group_ids!r}] * n"
        )
    ids = group_ids.tolist() if isinstance(group_ids, Tensor | np.ndarray) else list(group_ids)
    if len(ids) != n:
        raise ValueError(f"group_ids must have one entry per reward ({n}), not {len(ids)}")
    codes = dict(zip(dict.fromkeys(ids), count(), strict=False))
    missing = next((i for i, each in enumerate(codes) if each is None or each != each), None)
    if missing is not None:
        value = list(codes)[missing]
        place = next(i for i, each in enumerate(ids) if each is value)
        raise ValueError(f"group_ids[{place}] is {value}; every response needs a group id (string or integer)")
    return torch.from_numpy(np.fromiter(map(codes.__getitem__, ids), np.int64, n)), len(codes)


def buckets(finite: Tensor, group: Tensor, num_groups: int) -> Iterator[tuple[int, Tensor, Tensor]]:
    """(m, groups [g], rows [g, m]) for every number m ≥ 2 of finite responses that occurs, ascending."""
    rows = finite.nonzero().squeeze(-1)
    rows = rows[group[rows].argsort(stable=True)]
    sizes = torch.bincount(group[rows], minlength=num_groups)
    starts = sizes.cumsum(0) - sizes
    for m in sizes.unique().tolist():
        if m >= 2:
            groups = (sizes == m).nonzero().squeeze(-1)
            yield m, groups, rows[starts[groups].unsqueeze(-1) + torch.arange(m, device=rows.device)]
