"""The hard RoVR reference (eq:rovr) and the bounded credit of many groups in NumPy: a summary needs no torch and no compiler.

To rounding the numbers of `rovrl.REFERENCES["rovr"]`. Groups stand side by side: x is [slot, group], so that every operation
runs along groups that do not depend on each other. Estimators other than "rovr" are left to `rovrl.robust`, which needs torch.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import Array, pieces
from rovrl.audit.measure.centers import FAR, Solved, m_centers, medians
from rovrl.config import RewardChannel
from rovrl.robust.blocks import Blocks
from rovrl.robust.outliers.bulk import median
from rovrl.robust.settings import scale_source

ULP = 4 * float(np.finfo(np.float64).eps)


def references(rewards: Array, blocks: Blocks, channel: RewardChannel) -> tuple[Array, Array]:
    """The references of finite rewards [group, n], and the scale ν̂ behind each (0: it needs none)."""
    if channel.reference != "rovr":
        return _by_torch(rewards, blocks, channel)
    given = _given_scale(rewards, blocks, channel)
    x = np.ascontiguousarray(rewards.T)
    if len(blocks.sizes) == 1:
        return m_centers(x, channel.score_width).center, np.zeros(len(rewards))
    solved = [m_centers(x, channel.score_width, members) for members in blocks.members]
    nu = np.full(len(rewards), min(given or 0.0, channel.scale_cap))
    reference = np.empty(len(rewards))
    for part in pieces(len(rewards), channel.num_levels):
        if given is None:
            scales = [_sandwich(found, n, part, channel) for found, n in zip(solved, blocks.sizes, strict=True)]
            np.clip(medians(np.stack(scales)), channel.scale_floor, channel.scale_cap, out=nu[part])
        reference[part] = _corrected(np.stack([found.center[part] for found in solved]), nu[part], blocks, channel)
    return reference, nu


def credit(rewards: Array, reference: Array, channel: RewardChannel) -> Array:
    """χ_κ(R_i - θ̂)/{s_min² + mean_j χ_κ²(R_j - θ̂)}^½ of [group, n], eq:credit_advantage; no square overflows."""
    bound, floor = float(channel.credit_bound), float(channel.credit_floor)
    with np.errstate(over="ignore"):
        u = np.clip((rewards - reference[:, None]) / bound, -FAR, FAR)
    shaped = bound * (u / np.sqrt(1.0 + u * u))
    largest = np.maximum(np.abs(shaped).max(1), max(1.0, floor))
    share = shaped / largest[:, None]
    scale = largest * np.sqrt(np.einsum("gn,gn->g", share, share) / rewards.shape[1] + (floor / largest) ** 2)
    return shaped / scale[:, None]


def whole_scales(rewards: Array, channel: RewardChannel) -> Array:
    """The sandwich scale of each whole group [group, n] about its own M-center; 0 for a constant group."""
    found = m_centers(np.ascontiguousarray(rewards.T), channel.score_width)
    return _sandwich(found, rewards.shape[1], slice(None), channel)


def pooled(scales: Array) -> float:
    """The median of the scales of groups with contrast; 0 if none has."""
    return median(scales[scales > 0]) if (scales > 0).any() else 0.0


def count_true(flags: NDArray[np.bool_]) -> Array:
    """How many of each column [slot, column] are True."""
    kind = np.int8 if len(flags) < 128 else np.int64
    return np.add.reduce(flags.view(np.int8), axis=0, dtype=kind).astype(np.float64)


@lru_cache(maxsize=16)
def grid(num_levels: int) -> tuple[Array, float]:
    """Δ_k = Φ⁻¹(k/(K+1)), antisymmetric to the last bit, and D_K = Σ φ(Δ_k)."""
    offsets = np.array([NormalDist().inv_cdf(k / (num_levels + 1)) for k in range(1, num_levels + 1)])
    offsets = 0.5 * (offsets - offsets[::-1])
    return offsets, float(np.exp(-0.5 * offsets * offsets).sum() / math.sqrt(2 * math.pi))


def _corrected(centers: Array, nu: Array, blocks: Blocks, channel: RewardChannel) -> Array:
    """θ̂ = μ̂_0 - ν̂/(D_K W_B)·Σ_b Σ_k [J_0(μ̃_b - μ̂_0 - ν̂Δ_k/√n_b) - τ_k], with the M-centers μ̃ [block, group], eq:rovr."""
    start = medians(centers)
    offsets, density = grid(channel.num_levels)
    away = np.empty((len(offsets), len(start)))
    beyond, excess = np.empty(away.shape, dtype=bool), np.zeros(away.shape, dtype=np.int16)
    for center, size in zip(centers, blocks.sizes, strict=True):
        np.multiply(nu / math.sqrt(size), offsets[:, None], out=away)
        tie = channel.tie_tolerance * nu + ULP * (np.abs(center) + np.abs(start))
        apart = center - start
        excess += np.less(apart + tie, away, out=beyond).view(np.int8)
        excess -= np.greater(apart - tie, away, out=beyond).view(np.int8)
    return start - nu / (density * sum(map(math.sqrt, blocks.sizes))) * (0.5 * excess.sum(0))


def _sandwich(found: Solved, n: int, part: slice, channel: RewardChannel) -> Array:
    """√(mean ψ²)/(mean ψ' ∨ a_min) of some columns of n numbers about their centers."""
    area = n * channel.score_width**2
    return np.sqrt(found.square[part] / area) / np.maximum(found.slope[part] / area, channel.curvature_floor)


def _given_scale(rewards: Array, blocks: Blocks, channel: RewardChannel) -> float | None:
    """The ν̂ that all groups share, a pilot or their own pooled value; None where each group has its own."""
    source = scale_source(blocks, channel)
    if source in ("local", "none"):
        return None
    number = channel.scale_source if source == "pilot" else pooled(whole_scales(rewards, channel))
    return max(float(number), channel.scale_floor)


def _by_torch(rewards: Array, blocks: Blocks, channel: RewardChannel) -> tuple[Array, Array]:
    import torch

    from rovrl.robust.location import reference_parts

    with torch.no_grad():
        reference, nu = reference_parts(torch.from_numpy(np.ascontiguousarray(rewards)), blocks, channel)
    return reference.numpy(), nu.numpy()
