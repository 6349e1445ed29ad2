"""The paper's formulas in slow, plain NumPy, written from the equations and from nothing else.

Nothing here imports rovrl. Roots are found by bisection over the ordered floats themselves: at most 64 halvings, no
tolerance and no derivative, so that a solver's mistake cannot be shared. Scores are summed in long double.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

NORMAL = NormalDist()
_SIGN = np.int64(-(2**63))


# ---------------------------------------------------------------------------------------------- score functions
def barron_rho(u, c, shape):
    """Barron's loss (app:implementation); the special shapes are cases, as in the paper."""
    z2 = (u / c) ** 2
    if shape == 2:
        return z2 / 2
    if shape == 0:
        return math.log(1 + z2 / 2)
    if shape == -math.inf:
        return 1 - math.exp(-z2 / 2)
    d = abs(shape - 2)
    return d / shape * ((1 + z2 / d) ** (shape / 2) - 1)


def psi(u, c):
    """psi_c(u) of eq:convex_score, written so that a huge u gives +-1/c instead of overflow."""
    z = np.asarray(u, dtype=np.longdouble) / np.longdouble(c)
    return z / np.hypot(1, z) / c


def psi_deriv(u, c):
    """psi_c'(u) of eq:convex_score."""
    z = np.asarray(u, dtype=np.longdouble) / np.longdouble(c)
    return np.hypot(1, z) ** -3 / np.longdouble(c) ** 2


# ---------------------------------------------------------------------------------------------- M-centers
def _to_order(x):
    i = np.asarray(x, dtype=np.float64).view(np.int64)
    return np.where(i < 0, _SIGN - i, i)


def _from_order(k):
    return np.where(k < 0, _SIGN - k, k).astype(np.int64).view(np.float64)


def m_centers(x, c=1.0, mask=None):
    """Root of sum_i psi_c(x_i - u) per row of x [rows, n] (eq:block_m), by bisection over all floats in [min, max]."""
    x = np.asarray(x, dtype=np.float64)
    keep = np.ones(x.shape, dtype=bool) if mask is None else np.asarray(mask, dtype=bool)
    low = _to_order(np.where(keep, x, np.inf).min(-1) + 0.0)
    high = _to_order(np.where(keep, x, -np.inf).max(-1) + 0.0)
    for _ in range(66):
        middle = (low & high) + ((low ^ high) >> 1)
        u = _from_order(middle).astype(np.longdouble)
        # the outer where keeps masked slots (which may hold nan) out of the sum
        score = np.where(keep, psi(np.where(keep, x, 0).astype(np.longdouble) - u[..., None], c), 0).sum(-1)
        low = np.where(score > 0, np.minimum(middle + 1, high), low)
        high = np.where(score > 0, high, middle)
    a, b = _from_order(low), _from_order(np.maximum(low - 1, _to_order(np.where(keep, x, np.inf).min(-1) + 0.0)))

    # of the two floats around the root, the one with the smaller score
    def size(u):
        return abs(np.where(keep, psi(np.where(keep, x, 0).astype(np.longdouble) - u[..., None], c), 0).sum(-1))

    return np.where(size(b) < size(a), b, a)


def m_center(x, c=1.0):
    """The M-center of one list of numbers."""
    return float(m_centers(np.asarray(x, dtype=np.float64)[None], c)[0])


def m_center_brentq(x, c=1.0):
    """The same root by SciPy's brentq: a second, unrelated solver."""
    from scipy.optimize import brentq

    low, high = min(x), max(x)
    if low == high:
        return low

    def score(u):
        return math.fsum(float(v) for v in psi(np.asarray(x) - u, c))

    return brentq(score, low, high, xtol=1e-300, rtol=1e-15, maxiter=5000)


def m_center_mpmath(x, c, digits=40):
    """The same root in `digits` decimal digits."""
    import mpmath

    with mpmath.workdps(digits + 10):
        values = [mpmath.mpf(repr(float(v))) for v in x]
        c = mpmath.mpf(repr(float(c)))
        low, high = min(values), max(values)
        for _ in range(int(digits * 3.5)):
            u = (low + high) / 2
            score = mpmath.fsum((v - u) / mpmath.sqrt(1 + ((v - u) / c) ** 2) for v in values)
            low, high = (u, high) if score > 0 else (low, u)
        return (low + high) / 2


def m_center_lies_within(x, c, center, distance):
    """Whether the root is at most `distance` from `center`: the signs of the score there, in 50 digits after what cancels."""
    import mpmath

    spread = max(abs(float(v)) for v in x) / float(c) + 1
    with mpmath.workdps(50 + 2 * max(0, math.ceil(math.log10(spread)))):
        values, c, center, distance = [mpmath.mpf(float(v)) for v in x], *map(mpmath.mpf, (c, center, distance))

        def score(u):
            return mpmath.fsum((v - u) / mpmath.sqrt(c * c + (v - u) ** 2) for v in values)

        return score(center - distance) >= 0 >= score(center + distance)


def hostile_rows(generator, count):
    """Rows of 1 to 12 numbers of any magnitude up to 1e300: clusters, outliers, ties, far gaps, with a score width each."""
    for _ in range(count):
        n = int(generator.integers(1, 13))
        top = generator.choice([2, 6, 10, 17, 40, 300], p=[0.3, 0.2, 0.2, 0.2, 0.05, 0.05])
        x = generator.choice([-1, 1], n) * 10 ** generator.uniform(-3, top, n)
        kind = generator.integers(5)
        if kind == 0:  # two clusters, one of them far
            x = generator.normal(size=n) + np.where(generator.random(n) < 0.5, x[0], 0)
        elif kind == 1:  # ties
            x = generator.choice(x[:3], n)
        elif kind == 2:  # ordinary values and two outliers
            x = np.concatenate([generator.normal(size=max(n - 2, 0)), x[:2]])
        elif kind == 3:  # a large common shift
            x = 1e6 * generator.normal() + np.minimum(np.abs(x), 1e10) * np.sign(x)
        yield generator.permutation(x), float(generator.choice([1e-3, 0.1, 1.0, 1.0, 1.0, 50.0]))


def conditioning(x, center, c=1.0):
    """Error of a root whose score is known to one rounding: eps * mean|psi| / mean psi' (plus an ulp of the data)."""
    x = np.asarray(x, dtype=np.float64)
    eps = np.finfo(np.float64).eps
    size = np.abs(psi(x - np.asarray(center)[..., None], c)).mean(-1)
    curvature = psi_deriv(x - np.asarray(center)[..., None], c).mean(-1)
    return np.asarray(eps * (size / np.maximum(curvature, 1e-300) + np.abs(center) + 1e-300), dtype=np.float64)


# ---------------------------------------------------------------------------------------------- blocks
def balanced_sizes(n, num_blocks):
    """The first n mod B blocks have one element more."""
    return [n // num_blocks + (1 if b < n % num_blocks else 0) for b in range(num_blocks)]


def contiguous(n, num_blocks):
    """Members of B balanced contiguous blocks of range(n)."""
    members, start = [], 0
    for size in balanced_sizes(n, num_blocks):
        members.append(list(range(start, start + size)))
        start += size
    return members


def supported(sizes, total, q, s, failure_unit="response"):
    """z_block of alg:rovr_gspo."""
    return (
        failure_unit == "response"
        and q is not None
        and s is not None
        and len(sizes) > 1
        and len(sizes) >= 2 * q + 1
        and min(sizes) >= 2 * s + 1
        and sum(sizes) == total
        and max(sizes) - min(sizes) <= 1
    )


# ---------------------------------------------------------------------------------------------- scales
def sandwich_scale(x, center, c=1.0, a_min=1e-6):
    """nu_b = sqrt(mean psi^2) / max(mean psi', a_min)."""
    residual = np.asarray(x, dtype=np.float64) - center
    a = psi_deriv(residual, c).mean()
    b = (psi(residual, c) ** 2).mean()
    return float(np.sqrt(b) / max(a, a_min))


def clip(value, low, high):
    return min(max(value, low), high)


def pooled_scale(blocks, centers, c=1.0, a_min=1e-6, nu_min=1e-6, nu_max=10.0):
    """eq:robust_sandwich_scale."""
    local = [sandwich_scale(x, m, c, a_min) for x, m in zip(blocks, centers, strict=True)]
    return clip(midpoint_median(local), nu_min, nu_max)


def midpoint_median(values):
    v = sorted(values)
    n = len(v)
    return v[n // 2] if n % 2 else (v[n // 2 - 1] + v[n // 2]) / 2


# ---------------------------------------------------------------------------------------------- outer correction
def quantile_grid(K):
    """tau_k, Delta_k and D_K."""
    tau = [k / (K + 1) for k in range(1, K + 1)]
    delta = [NORMAL.inv_cdf(t) for t in tau]
    return tau, delta, sum(NORMAL.pdf(d) for d in delta)


def outer_factor(K):
    """V_K of eq:main_clean_efficiency."""
    tau, _, D = quantile_grid(K)
    return sum(min(s, t) - s * t for s in tau for t in tau) / D**2


def hard_step(u, tolerance):
    """J_0 of eq:mid_indicator with a tolerance."""
    return 0.5 if abs(u) <= tolerance else float(u < 0)


def soft_step(u, gamma):
    """H_gamma, without overflow."""
    z = u / gamma
    return math.exp(-z) / (1 + math.exp(-z)) if z > 0 else 1 / (1 + math.exp(z))


def corrected(centers, sizes, start, nu, K, step):
    """eq:rovr with `step(u_bk, center_b)` as the indicator."""
    tau, delta, D = quantile_grid(K)
    W = sum(math.sqrt(n) for n in sizes)
    total = 0.0
    for center, n in zip(centers, sizes, strict=True):
        for t, d in zip(tau, delta, strict=True):
            total += step(center - start - nu * d / math.sqrt(n), center) - t
    return start - nu / (D * W) * total


def tie_tolerance(center, start, nu, relative=1e-9):
    """What counts as a tie with one block: relative to the pooled scale, plus a few ulp of the two centers compared."""
    return relative * nu + 4 * np.finfo(np.float64).eps * (abs(center) + abs(start))


# ---------------------------------------------------------------------------------------------- the six references
def references(name, x, members, *, c=1.0, K=9, a_min=1e-6, nu_min=1e-6, nu_max=10.0, tie=1e-9, nu=None, gamma=None):
    """One of the six reference estimators per row of x [groups, n].

    `nu` given = a pilot scale. `gamma` given (with "rovr") = S_gamma: the logistic step replaces the hard one.
    """
    x = np.asarray(x, dtype=np.float64)
    if name == "mean":
        return x.mean(-1)
    if name == "global_m":
        return m_centers(x, c)
    blocks = [x[:, list(m)] for m in members]
    sizes = [len(m) for m in members]
    means = name in ("mom", "vrmom")
    all_centers = np.stack([b.mean(-1) if means else m_centers(b, c) for b in blocks], -1)
    out = []
    for row, centers in enumerate(all_centers):
        start = midpoint_median(centers)
        if name in ("mom", "robust_mom"):
            out.append(start)
            continue
        if means:
            scale = clip(midpoint_median([float(b[row].std()) for b in blocks]), nu_min, nu_max)
        else:
            scale = pooled_scale([b[row] for b in blocks], centers, c, a_min, nu_min, nu_max)
        scale = scale if nu is None else clip(nu, nu_min, nu_max)
        out.append(corrected(centers, sizes, start, scale, K, _step(start, scale, tie, gamma)))
    return np.array(out, dtype=np.float64)


def _step(start, nu, tie, gamma):
    if gamma is not None:
        return lambda u, _: soft_step(u, gamma)
    return lambda u, center: hard_step(u, tie_tolerance(center, start, nu, tie))


def reference(name, x, members, **settings):
    """One of the six reference estimators of one group."""
    return float(references(name, np.asarray(x, dtype=np.float64)[None], members, **settings)[0])


# ---------------------------------------------------------------------------------------------- SoftRoVR
def soft_rovrs(
    rows,
    *,
    num_blocks=8,
    min_block=4,
    K=9,
    c=1.0,
    gamma=0.01,
    eta=0.01,
    a_min=1e-6,
    nu_min=1e-6,
    nu_max=10.0,
    regularizer=0.0,
):
    """SoftRoVR of each response's valid tokens, converged (eq:softrovr_ratio; scales capped, pooled, clipped)."""

    def local_scale(x, middle):
        a, b = psi_deriv(x - middle, c).mean(), (psi(x - middle, c) ** 2).mean()
        return min(float(np.sqrt(b) / (max(a, a_min) + regularizer)), nu_max)

    rows = [np.asarray(t, dtype=np.float64) for t in rows]
    blocks = [[t[m] for m in contiguous(len(t), max(1, min(num_blocks, len(t) // min_block)))] for t in rows]
    flat = iter(_padded_centers([x for row in blocks for x in row], c))
    centers = [[float(next(flat)) for _ in row] for row in blocks]
    scales = [[local_scale(x, m) if len(x) else 0.0 for x, m in zip(*pair, strict=True)]
              for pair in zip(blocks, centers, strict=True)]  # fmt: skip
    starts, pooled = _padded_centers(centers, eta), _padded_centers(scales, eta)
    out = []
    for x, middle, start, nu in zip(blocks, centers, starts, pooled, strict=True):
        sizes = [len(b) for b in x]
        if len(x) == 1:  # includes the empty response, whose one empty block has center 0
            out.append(middle[0])
        else:
            nu = clip(float(nu), nu_min, nu_max)
            out.append(corrected(middle, sizes, float(start), nu, K, lambda u, _: soft_step(u, gamma)))
    return np.array(out)


def soft_rovr(tokens, **settings):
    """SoftRoVR of one response's valid tokens."""
    return float(soft_rovrs([tokens], **settings)[0])


def _padded_centers(lists, c):
    """M-center of each list, 0 for an empty one."""
    lists = [v if len(v) else [0.0] for v in lists]
    table, mask = np.zeros((len(lists), max(map(len, lists)))), np.zeros((len(lists), max(map(len, lists))), dtype=bool)
    for row, v in enumerate(lists):
        table[row, : len(v)], mask[row, : len(v)] = v, True
    return m_centers(table, c, mask)


# ---------------------------------------------------------------------------------------------- advantages
def credit_map(u, kappa):
    """chi_kappa of eq:bounded_credit_map."""
    return u / math.hypot(1.0, u / kappa) if math.isfinite(u / kappa) else math.copysign(kappa, u)


def credit(rewards, theta, kappa=1.0, s_min=1e-3):
    """eq:credit_advantage."""
    z = [credit_map(r - theta, kappa) for r in rewards]
    scale = math.sqrt(s_min**2 + sum(v * v for v in z) / len(z))
    return [v / scale for v in z]


def center(rewards, theta, eps=1e-6):
    """The center-only advantage."""
    scale = math.sqrt(eps + sum((r - theta) ** 2 for r in rewards) / len(rewards))
    return [(r - theta) / scale for r in rewards]


def grpo(rewards, eps=1e-6):
    """Mean-centred over the sample standard deviation plus eps."""
    n = len(rewards)
    mean = math.fsum(rewards) / n
    sd = math.sqrt(math.fsum((r - mean) ** 2 for r in rewards) / (n - 1))
    return [(r - mean) / (sd + eps) for r in rewards]


def rovr_or_fallback(rewards, num_blocks=3, q=1, s=1, members=None, **settings):
    """alg:rovr_gspo's reference of one group of finite rewards, contiguous blocks unless `members` are given."""
    n = len(rewards)
    members = contiguous(n, num_blocks) if members is None and num_blocks <= n else members
    if members is None or not supported([len(m) for m in members], n, q, s):
        return reference("global_m", rewards, None, c=settings.get("c", 1.0))
    return reference("rovr", rewards, members, **settings)


def loo(rewards, num_blocks=3, q=1, s=1, s_min=1e-3, **settings):
    """eq:loo_advantage with S_{-i} = sqrt(s_min^2 + mean_{j != i} (R_j - theta_{-i})^2)."""
    out = []
    for i, r in enumerate(rewards):
        rest = [v for j, v in enumerate(rewards) if j != i]
        theta = rovr_or_fallback(rest, num_blocks, q, s, **settings)
        out.append((r - theta) / math.sqrt(s_min**2 + sum((v - theta) ** 2 for v in rest) / len(rest)))
    return out


# ---------------------------------------------------------------------------------------------- loss and diagnostics
def clipped_objective(m, A, low=3e-4, high=4e-4):
    """g of eq:gspo_objective with the exponent clamped at 20."""
    q = math.exp(min(m, 20.0))
    return min(q * A, clip(q, 1 - low, 1 + high) * A)


def clip_branch(m, A, low=3e-4, high=4e-4):
    """+1 upper-clipped, -1 lower-clipped, 0 active (eq:clipping_branch_derivative)."""
    q = math.exp(min(m, 20.0))
    if A > 0 and q > 1 + high:
        return 1
    return -1 if A < 0 and q < 1 - low else 0


def contrast(A, keep):
    """C_H(A)."""
    h = [a for a, k in zip(A, keep, strict=True) if k]
    n = len(h)
    return math.sqrt(2 * sum((h[i] - h[k]) ** 2 for i in range(n) for k in range(i + 1, n)) / (n * (n - 1)))
