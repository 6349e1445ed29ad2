"""The outer map of SoftRoVR on a row's block numbers, with its derivative, compiled (eq:softrovr_ratio).

In: per block its size, its center and the sums of rows.py. Out: the value, and per block what the element pass needs, the
center and the factors (α, β, γ) of P', PP' and Pw⁴. All in double, and in the row's `unit` (1 if units are absolute).
"""

from __future__ import annotations

import math

from rovrl.robust.kernels.jit import entry, helper


@helper
def _weights(values, used, u, width, weights):
    """Fills `weights` with the derivative of the smooth median u of values, P'_b/ΣP', which sums to one."""
    nearest, total = math.inf, 0.0
    for b in range(used):
        weights[b] = math.hypot(0.25 * width, 0.25 * values[b] - 0.25 * u)  # a quarter: no difference overflows
        nearest = weights[b] if weights[b] < nearest else nearest
    for b in range(used):
        weights[b] = (nearest / weights[b]) ** 3.0
        total += weights[b]
    for b in range(used):
        weights[b] /= total


@helper
def _outer(centers, scales, start, pooled, work, sizes, used, offsets, constants):
    """SoftRoVR of several blocks: eq:rovr with smooth medians and H_γ, from centers, capped scales and their smooth medians.

    Fills ∂value/∂center (work[0]) and ∂value/∂scale (work[1]). With h = H(1 - H)/γ summed over the levels, s = ν/(D_K W_B):
        ∂/∂μ_b = s h_b + (1 - s Σh) ∂μ_0/∂μ_b,    ∂/∂ν = -Σ(H - τ)/(D_K W_B) - s Σ h Δ_k/√n_b.
    """
    temperature, scale_floor, scale_cap = constants.temperature, constants.scale_floor, constants.scale_cap
    by_center, by_scale, steepness = work[0], work[1], work[4]
    _weights(centers, used, start, constants.median_width, by_center)
    _weights(scales, used, pooled, constants.median_width, by_scale)
    nu = scale_floor if pooled < scale_floor else pooled
    nu = scale_cap if nu > scale_cap else nu
    weight, excess, pull, steep = 0.0, 0.0, 0.0, 0.0
    for b in range(used):
        root_n = math.sqrt(sizes[b])
        total = 0.0
        for k in range(offsets.size):
            away = offsets[k] / root_n
            z = (centers[b] - start - nu * away) / temperature
            small = math.exp(-abs(z))
            step = 1.0 / (1.0 + small)
            h = small * step * step / temperature
            excess += small * step if z > 0 else step
            total += h
            pull += h * away
        excess -= 0.5 * offsets.size
        weight += root_n
        steep += total
        steepness[b] = total
    weight = constants.density * weight + constants.regularizer
    share = nu / weight
    by_nu = -excess / weight - share * pull if scale_floor <= pooled <= scale_cap else 0.0
    for b in range(used):
        by_center[b] = share * steepness[b] + (1.0 - share * steep) * by_center[b]
        by_scale[b] *= by_nu
    return start - share * excess


@entry
def outer_rows(sizes, state, unit, centers, scales, start, pooled, offsets, constants, work, value, coefficients):
    """Fills value[row] and coefficients[row, block] = (center, α, β, γ); a row without an element has value 0.

    `centers` and capped `scales` are in the row's `unit`, `start` and `pooled` are their smooth medians (eq:smooth_median),
    `offsets` are Δ_1..K, `constants` are `OuterConstants`, `work` is scratch [5, block].
    """
    curvature_floor, regularizer = constants.curvature_floor, constants.regularizer
    scale_cap, score_width = constants.scale_cap, constants.score_width
    by_center, by_scale, by_square, by_slope = work[0], work[1], work[2], work[3]
    for row in range(sizes.shape[0]):
        used = 0
        while used < sizes.shape[1] and sizes[row, used] > 0:
            area = sizes[row, used] * score_width * score_width
            curvature, root = state[row, used, 1] / area, math.sqrt(state[row, used, 2] / area)
            bent = curvature > curvature_floor
            floored = (curvature if bent else curvature_floor) + regularizer
            scale = root / floored  # ν_b = √b/(a ∨ a_min)
            capped = scale > scale_cap
            by_square[used] = 0.0 if capped or root == 0 else 1.0 / (area * score_width * root * floored)
            by_slope[used] = 3.0 * scale / (area * score_width * floored) if bent and not capped else 0.0
            used += 1
        by_center[0], by_scale[0] = 1.0, 0.0
        value[row] = state[row, 0, 0] if used == 1 else 0.0
        if used > 1:
            medians = start[row], pooled[row]
            value[row] = unit[row] * _outer(
                centers[row], scales[row], *medians, work, sizes[row], used, offsets, constants
            )
        for b in range(used):
            mixed, second = by_scale[b] * by_square[b], by_scale[b] * by_slope[b]
            through = by_center[b] - mixed * state[row, b, 3] - second * state[row, b, 4]
            coefficients[row, b, 0], coefficients[row, b, 1] = state[row, b, 0], through / state[row, b, 1]
            coefficients[row, b, 2], coefficients[row, b, 3] = mixed, second
