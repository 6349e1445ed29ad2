"""Token log-ratios -> the log sequence weight, with gradient (eq:softrovr_ratio); GSPO's mean beside it (eq:gspo_ratio)."""

from __future__ import annotations

import torch
import torch.distributed as dist
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rovrl.config import RatioChannel
from rovrl.robust.centers import as_working, dense_real
from rovrl.robust.soft.autograd import soft_packed, soft_rows
from rovrl.robust.soft.eager import contiguous_layout, row_unit
from rovrl.robust.soft.shared import ORDERS, soft_shared
from rovrl.robust.soft.solution import check_bounds, padded
from rovrl.robust.soft.unrolled import unrolled

SOLUTIONS = {"implicit": soft_rows, "unrolled": unrolled}
"""RatioChannel.gradient -> the map of rows."""


def soft_rovr(
    log_ratios: Float[Tensor, "*seq token"],
    mask: Bool[Tensor, "*seq token"] | None = None,
    channel: RatioChannel | str = RatioChannel(),  # noqa: B008 - frozen
) -> Float[Tensor, "*seq"]:
    """SoftRoVR(ℓ_1 .. ℓ_T), the log sequence weight of eq:softrovr_ratio.

    Contiguous blocks over the valid tokens in order; the mask (True = keep; None = all) may have holes, and what it
    hides has no influence, not even if it is NaN. A NaN or infinite log-ratio that it keeps makes the weight of that
    response NaN, and of no other. No valid token: 0 with zero gradient. One block: their M-center.
    float32 and float64 stay, narrower types are taken to float32; autocast does not reach inside.
    Gradient: by `channel.gradient`; sums to one over the valid tokens (prop:main_softrovr_stability). First order only.
    """
    log_ratios = _checked(log_ratios, mask)
    channel = RatioChannel.of(channel)
    shape = log_ratios.shape
    if log_ratios.numel() == 0:
        return log_ratios.sum(-1)
    rows = (-1, shape[-1])
    keep = None if mask is None else mask.bool().reshape(rows)
    with torch.autocast(log_ratios.device.type, enabled=False):
        return SOLUTIONS[channel.gradient](log_ratios.reshape(rows), keep, channel).reshape(shape[:-1])


def soft_rovr_packed(
    log_ratios: Float[Tensor, " token"],
    cu_seqlens: Int[Tensor, " seq_plus_1"],
    channel: RatioChannel | str = RatioChannel(),  # noqa: B008 - frozen
) -> Float[Tensor, " seq"]:
    """SoftRoVR of responses that lie one behind the other: `cu_seqlens` is 0, T_1, T_1 + T_2, ..., the number of tokens.

    The same as `soft_rovr` of the padded responses, without the padding. An empty response gives 0. Gradient: as there.
    """
    if log_ratios.ndim != 1 or cu_seqlens.ndim != 1 or len(cu_seqlens) == 0 or cu_seqlens.dtype.is_floating_point:
        raise ValueError(
            "log_ratios must be flat tokens and cu_seqlens flat integers with a leading 0, not "
            f"{log_ratios.dtype} {tuple(log_ratios.shape)} and {cu_seqlens.dtype} {tuple(cu_seqlens.shape)}"
        )
    channel = RatioChannel.of(channel)
    log_ratios, bounds = as_working(log_ratios), cu_seqlens.to(log_ratios.device, torch.int64)
    if channel.gradient == "implicit":
        with torch.autocast(log_ratios.device.type, enabled=False):
            return soft_packed(log_ratios, bounds, channel)
    check_bounds(bounds, len(log_ratios))
    return soft_rovr(*padded(log_ratios, bounds), channel)


def soft_rovr_context_parallel(
    log_ratios: Float[Tensor, "*seq token"],
    mask: Bool[Tensor, "*seq token"] | None = None,
    channel: RatioChannel | str = RatioChannel(),  # noqa: B008 - frozen
    *,
    group: dist.ProcessGroup | None = None,
    order: str = "contiguous",
) -> Float[Tensor, "*seq"]:
    """`soft_rovr` (eq:softrovr_ratio) of responses whose tokens are split over the ranks of `group`; the same on every rank.

    Every rank of the group (None: all there are) calls it with its own tokens of the same responses, in the order of the
    ranks; none of a response, or none at all, is fine. order="zigzag": rank r of n holds pieces r and 2n-1-r of 2n, one behind
    the other, as load-balanced attention has it. Messages are sums per block: their size does not depend on the length.
    Gradient: implicit, of the rank's own tokens, for a loss that every rank computes alike; without a message. First order.
    """
    log_ratios = _checked(log_ratios, mask)
    channel = RatioChannel.of(channel)
    _check_group(log_ratios, channel, group, order)
    shape = log_ratios.shape[:-1]
    rows = (shape.numel(), log_ratios.shape[-1])
    if rows[0] == 0:
        return log_ratios.sum(-1)
    keep = None if mask is None else mask.bool().reshape(rows)
    with torch.autocast(log_ratios.device.type, enabled=False):
        return soft_shared(log_ratios.reshape(rows), keep, channel, group, order).reshape(shape)


def gspo_mean(
    log_ratios: Float[Tensor, "*seq token"], mask: Bool[Tensor, "*seq token"] | None = None
) -> Float[Tensor, "*seq"]:
    """GSPO's log weight, the mean of the valid token log-ratios, eq:gspo_ratio; 0 for none. Gradient: 1/T each."""
    log_ratios = _checked(log_ratios, mask)
    mask = _full(log_ratios, mask)
    with torch.autocast(log_ratios.device.type, enabled=False):
        return torch.where(mask, log_ratios, 0.0).sum(-1) / mask.sum(-1).clamp(min=1)


def token_scale(
    x: Float[Tensor, "seq token"], mask: Bool[Tensor, "seq token"], channel: RatioChannel
) -> Float[Tensor, " seq"]:
    """The unit of units="robust" for each row of tokens: `row_unit` of the channel's blocks."""
    layout = contiguous_layout(mask, channel.num_blocks, channel.min_block)
    return row_unit(layout.gather(x), layout, channel.scale_floor)


def _checked(log_ratios: Tensor, mask: Tensor | None) -> Tensor:
    if not isinstance(log_ratios, Tensor):
        raise ValueError(
            f"log_ratios must be a torch tensor, not a {type(log_ratios).__name__}: write torch.as_tensor(x)"
        )
    if log_ratios.dtype == torch.bool:
        raise ValueError("log_ratios must be numbers, not bool: the log-ratios come first, then the mask")
    if mask is not None and not isinstance(mask, Tensor):
        raise ValueError(
            f"mask must be a bool tensor or None, not a {type(mask).__name__}; a channel is given as channel=..."
        )
    log_ratios = as_working(log_ratios)
    if log_ratios.ndim == 0:
        raise ValueError("log_ratios must have a token axis, not be a single number")
    if mask is not None and dense_real(mask).shape != log_ratios.shape:
        raise ValueError(f"mask must have the shape of log_ratios, {tuple(log_ratios.shape)}, not {tuple(mask.shape)}")
    return log_ratios


def _full(log_ratios: Tensor, mask: Tensor | None) -> Tensor:
    return torch.ones_like(log_ratios, dtype=torch.bool) if mask is None else mask.bool()


def _check_group(log_ratios: Tensor, channel: RatioChannel, group: dist.ProcessGroup | None, order: str) -> None:
    if not (dist.is_available() and dist.is_initialized()):
        raise ValueError(
            "torch.distributed is not initialised, so there are no ranks that tokens could be split over; "
            "a process that holds whole responses calls rovrl.soft_rovr"
        )
    if dist.get_rank(group) < 0:
        raise ValueError(f"rank {dist.get_rank()} does not belong to the group; only its ranks may call")
    if channel.gradient != "implicit":
        raise ValueError('tokens that are split over ranks need RatioChannel(gradient="implicit")')
    if order not in ORDERS:
        raise ValueError(f"order must be {' or '.join(ORDERS)}, not {order!r}")
    if order == "zigzag" and log_ratios.shape[-1] % 2:
        raise ValueError(f'order="zigzag" needs two pieces of one length, not {log_ratios.shape[-1]} tokens')
    rows = log_ratios.shape[:-1].numel()
    most = torch.tensor([rows, -rows], device=log_ratios.device)
    dist.all_reduce(most, op=dist.ReduceOp.MAX, group=group)
    if most.sum() != 0:
        raise ValueError(
            f"every rank must hold tokens of the same responses: this one has {rows}, others {-int(most[1])} to {int(most[0])}"
        )
