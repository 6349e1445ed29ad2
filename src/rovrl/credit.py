"""Rewards -> reference -> credit -> advantage: the formulas, on finite groups [batch, group] with given blocks.

`rovrl.advantage` adds what real batches need: partitions, fallback, rewards that are not numbers, ragged groups.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from rovrl.config import ADAPTIVE, GRPO_EPSILON, RewardChannel
from rovrl.robust.blocks import Blocks
from rovrl.robust.compiled import bounded_rows
from rovrl.robust.kernels import takes_lanes
from rovrl.robust.location import REFERENCES, reference_parts, reference_row_by_row
from rovrl.robust.spread import spread_of_others, without_each
from rovrl.scales import ADAPTIVE_FLOOR, ADAPTIVE_LEAST

UNKNOWN_FLOOR = 1.0
"""The adaptive floor of leave-one-out where the others are all equal: nothing but the response's own reward shows a scale."""
MAX_LOO_ELEMENTS = 1 << 24
"""Leave-one-out holds G copies of each group; larger batches are cut into pieces of this many numbers."""


@dataclass(frozen=True)
class Credit:
    """What a method makes of finite groups [batch, group]: advantages, and per group reference, divisor, ν̂ and Ĉ_B."""

    advantages: Float[Tensor, "batch group"]
    reference: Float[Tensor, " batch"]
    scale: Float[Tensor, " batch"]
    nu: Float[Tensor, " batch"] | None = None
    correction: Float[Tensor, " batch"] | None = None


Formula = Callable[[Tensor, Blocks, RewardChannel], Credit]


@dataclass(frozen=True)
class Method:
    """A formula with what the code around it must know of it."""

    name: str
    formula: Formula
    leaves_out: int = 0
    """How many responses the blocks leave out; if any, every number comes from the others alone (eq:loo_advantage)."""
    robust: bool = False
    """Whether it has a robust reference and a divisor of its own to speak of."""
    bounded: bool = False
    """Whether `credit_bound` and `credit_floor` take part."""

    def __call__(self, rewards: Tensor, blocks: Blocks, channel: RewardChannel) -> Credit:
        """The formula on finite groups [batch, group] with given blocks."""
        return self.formula(rewards, blocks, channel)

    @classmethod
    def of(cls, method: str | Callable[..., Tensor]) -> Method:
        """The formula of that name, or a function (rewards, channel, *, blocks) -> advantages as one."""
        if isinstance(method, str):
            if method not in FORMULAS:
                raise ValueError(f"method must be one of {', '.join(FORMULAS)} or a function, not {method!r}")
            return FORMULAS[method]

        def formula(rewards: Tensor, blocks: Blocks, channel: RewardChannel) -> Credit:
            nothing = torch.zeros_like(rewards[:, 0])
            return Credit(method(rewards, channel, blocks=blocks), nothing, nothing)

        return cls(getattr(method, "__name__", "function"), formula)


def credit_map(u: Float[Tensor, "*n"], bound: float | Tensor) -> Float[Tensor, "*n"]:
    """χ_κ(u) = u/√(1 + (u/κ)²), eq:bounded_credit_map: odd, |χ| ≤ κ, slope 1 at 0; never overflows. Gradient: autograd."""
    bound = torch.as_tensor(bound, dtype=u.dtype, device=u.device)
    return bound * (u / torch.hypot(u, bound))


def credit(rewards: Float[Tensor, "batch group"], blocks: Blocks, channel: RewardChannel) -> Credit:
    """The bounded credit Â_i = χ_κ(R_i - θ̂_R)/ŝ_χ, eq:credit_advantage.

    θ̂_R = RoVR(R),  ŝ_χ = {s_min² + mean_j χ_κ²(R_j - θ̂_R)}^½;  |Â_i| ≤ min{κ/s_min, √G} (eq:credit_global_bound).
    """
    reference, *rest = reference_parts(rewards, blocks, channel)
    if takes_lanes(rewards):
        numbers = _number(channel.credit_bound), _number(channel.credit_floor)
        advantages, scale = bounded_rows(rewards, reference, *numbers)
        return Credit(advantages, reference, scale, *rest)
    shaped = credit_map(_residual(rewards, reference), _number(channel.credit_bound))
    scale = _root_mean_square(shaped, _number(channel.credit_floor))
    return Credit(shaped / scale.unsqueeze(-1), reference, scale, *rest)


def center(rewards: Float[Tensor, "batch group"], blocks: Blocks, channel: RewardChannel) -> Credit:
    """The center-only ablation (R_i - θ̂_R)/{ε_s + mean_j (R_j - θ̂_R)²}^½, below eq:credit_clean_fidelity.

    A robust reference with a raw scale: prop:center_only_impossibility says that it cannot protect the contrast.
    """
    reference, *rest = reference_parts(rewards, blocks, channel)
    residual = _residual(rewards, reference)
    scale = _root_mean_square(residual, GRPO_EPSILON**0.5)
    return Credit(_quotient(residual, scale.unsqueeze(-1)), reference, scale, *rest)


def grpo(rewards: Float[Tensor, "batch group"], blocks: Blocks, channel: RewardChannel) -> Credit:
    """GRPO's baseline (R_i - mean)/(sample standard deviation + 1e-6): eq:grpo_advantage in the form of the stress protocol."""
    reference = REFERENCES["mean"](rewards, blocks, channel)
    tied = (rewards == rewards[..., :1]).all(-1, keepdim=True)
    residual = _residual(rewards, reference).masked_fill(tied, 0.0)  # the mean of equal numbers may be off by rounding
    group = rewards.shape[-1]
    unit = residual.abs().amax(-1).clamp(min=1.0)  # the standard deviation of finite rewards may itself overflow
    residual = residual / unit.unsqueeze(-1)
    scale = _root_mean_square(residual, 0.0) * (group / max(group - 1, 1)) ** 0.5 + GRPO_EPSILON / unit
    return Credit(residual / scale.unsqueeze(-1), reference, (scale * unit).clamp(max=_finite_range(scale)[1]))


def leave_one_out(rewards: Float[Tensor, "batch group"], blocks: Blocks, channel: RewardChannel) -> Credit:
    """(R_i - θ̂_{R,-i})/S_{-i}, eq:loo_advantage: reference and scale of response i from the others alone.

    S_{-i} = {s_min² + mean_{j≠i} (R_j - θ̂_{R,-i})²}^½; `blocks` partitions the other G-1. What is not a number yet comes
    without R_i as well, else thm:crossfit_baseline would not hold: a "lagged" ν̂ is the sandwich scale of the other G-1,
    an "adaptive" floor is `spread_of_others`. `reference` and `scale` of the result are the means over i, for the log.
    """
    group = rewards.shape[-1]
    step = max(1, MAX_LOO_ELEMENTS // (group * (group - 1)))
    floor = _floor_of_others(rewards, channel)
    pieces = [
        _leave_one_out(piece, blocks, channel, least)
        for piece, least in zip(rewards.split(step), floor.split(step), strict=True)
    ]
    reference, scale = (torch.cat([p[k] for p in pieces]) for k in range(2))
    advantages = _quotient(_residual(rewards, reference), scale)
    return Credit(advantages, (reference / group).sum(-1), (scale / group).sum(-1))


def _leave_one_out(rewards: Tensor, blocks: Blocks, channel: RewardChannel, floor: Tensor) -> tuple[Tensor, Tensor]:
    rest = without_each(rewards)
    reference = reference_row_by_row(rest, blocks, channel)
    residual = (rest - reference.unsqueeze(-1)).clamp(*_finite_range(rest))
    return reference, _root_mean_square(residual, floor)


def _floor_of_others(rewards: Tensor, channel: RewardChannel) -> Tensor:
    """s_min for each response [batch, group]: a number of the settings, or the spread of rewards other than its own."""
    if channel.credit_floor != ADAPTIVE:
        return torch.full_like(rewards, _number(channel.credit_floor))
    spread = spread_of_others(rewards)
    return torch.where(spread > 0, (ADAPTIVE_FLOOR * spread).clamp(min=ADAPTIVE_LEAST), UNKNOWN_FLOOR)


FORMULAS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("grpo", grpo),
        Method("center", center, robust=True),
        Method("loo", leave_one_out, leaves_out=1, robust=True),
        Method("credit", credit, robust=True, bounded=True),
    )
}
"""Name -> the formula on finite groups with given blocks; `ADVANTAGES` adds everything around it."""


def _residual(rewards: Tensor, reference: Tensor) -> Tensor:
    if reference.ndim < rewards.ndim:
        reference = reference.unsqueeze(-1)
    return (rewards - reference).clamp(*_finite_range(rewards))


def _quotient(numerator: Tensor, divisor: Tensor) -> Tensor:
    """The quotient, cut off at the largest number there is."""
    return (numerator / divisor).clamp(*_finite_range(numerator))


def _finite_range(x: Tensor) -> tuple[float, float]:
    return torch.finfo(x.dtype).min, torch.finfo(x.dtype).max


def _root_mean_square(u: Tensor, least: float | Tensor) -> Tensor:
    """{least² + mean u²}^½ along the last axis; squares are taken relative to the largest, so that none overflows.

    `least` is one number or one per row.
    """
    least = torch.as_tensor(least, dtype=u.dtype, device=u.device)
    largest = torch.maximum(u.abs().amax(-1).clamp(min=1.0), least)
    return largest * (((u / largest.unsqueeze(-1)) ** 2).mean(-1) + (least / largest) ** 2).sqrt()


def _number(value: float | str) -> float:
    if isinstance(value, str):
        raise ValueError(f"an {value!r} setting must be resolved to a number first (rovrl.scales.resolve)")
    return value
