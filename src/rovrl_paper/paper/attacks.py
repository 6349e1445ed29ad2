"""Adversaries for the certificates: what some data, rewards or law really do, to set beside the bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from rovrl.config import RewardChannel
from rovrl.credit import FORMULAS, credit_map
from rovrl.robust.blocks import Blocks

OFFSETS = (0.0, *(sign * size for size in (0.1, 0.2, 0.4, 0.7, 1.0, 2.0, 4.0, 1e9) for sign in (1, -1)))
"""What a replaced reward is set to, beside the reference; the last is as good as infinite."""


@torch.no_grad()
def attack_rewards(
    x: Float[Tensor, "row group"], blocks: Blocks, channel: RewardChannel, replaced: int, passes: int = 2
) -> Float[Tensor, " row"]:
    """The largest change of an unchanged advantage that a coordinate search over r replaced rewards finds.

    It starts from the r lowest rewards sent up, and from the r highest sent down; then each replacement in turn is moved to
    the response and the value that do most harm. Real groups through the real estimator, so never above the supremum.
    """
    best = torch.zeros(len(x), dtype=x.dtype)
    for sign in (1.0, -1.0):
        place = (sign * x).argsort(-1)[:, :replaced]
        value = sign * 1e9 * torch.ones_like(place, dtype=x.dtype)
        for step in range(passes * replaced):
            harm, place, value = _best_move(x, blocks, channel, place, value, step % replaced)
            best = torch.maximum(best, harm)
    return best


def _best_move(
    x: Tensor, blocks: Blocks, channel: RewardChannel, place: Tensor, value: Tensor, slot: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The attack with one of its replacements at its best response and value, and the harm it then does."""
    clean = FORMULAS["credit"](x, blocks, channel)
    group, offsets = x.shape[-1], torch.tensor(OFFSETS, dtype=x.dtype)
    places = torch.arange(group).repeat_interleave(len(offsets))
    values = clean.reference.unsqueeze(-1) + offsets.repeat(group)  # [row, candidate]
    held = [k for k in range(place.shape[-1]) if k != slot]
    attacked, hit = x.clone(), torch.zeros_like(x, dtype=torch.bool)
    attacked.scatter_(-1, place[:, held], value[:, held])
    hit.scatter_(-1, place[:, held], True)
    here = places == torch.arange(group).unsqueeze(-1)  # [group, candidate]
    tried = torch.where(here.T, values.unsqueeze(-1), attacked.unsqueeze(-2))  # [row, candidate, group]
    moved = FORMULAS["credit"](tried.flatten(0, 1), blocks, channel).advantages.view_as(tried)
    changed = (moved - clean.advantages.unsqueeze(-2)).abs()
    harm, chosen = changed.masked_fill(hit.unsqueeze(-2) | here.T, 0.0).amax(-1).max(-1)
    place, value = place.clone(), value.clone()
    place[:, slot], value[:, slot] = places[chosen], values.gather(-1, chosen.unsqueeze(-1)).squeeze(-1)
    return harm, place, value


@torch.no_grad()
def attack_credit(
    x: Float[Tensor, "row group"], reference: Tensor, replaced: int, error: float, kappa: float, floor: float
) -> Float[Tensor, " row"]:
    """The largest change of an unchanged advantage over a grid of shifts |δθ| ≤ e, rewards replaced by hand at each."""
    clean = _credit(x, reference, kappa, floor)
    best = torch.zeros(len(x), dtype=x.dtype)
    for shift in torch.linspace(-error, error, 41, dtype=x.dtype):
        theta = reference + shift
        for focal in range(x.shape[-1]):
            size = (x - theta.unsqueeze(-1)).abs()
            size[:, focal] = math.nan  # not to be replaced
            for largest in (True, False):
                key = size.nan_to_num(-math.inf if largest else math.inf)
                hit = key.topk(replaced, dim=-1, largest=largest).indices
                value = theta if largest else theta + 1e12
                attacked = x.scatter(-1, hit, value.unsqueeze(-1).expand(-1, replaced))
                moved = _credit(attacked, theta, kappa, floor)[:, focal]
                best = torch.maximum(best, (moved - clean[:, focal]).abs())
    return best


def _credit(x: Tensor, reference: Tensor, kappa: float, floor: float) -> Tensor:
    shaped = credit_map(x - reference.unsqueeze(-1), kappa)
    return shaped / (floor**2 + (shaped * shaped).mean(-1, keepdim=True)).sqrt()


def attack_law(sizes: Sequence[int], replaced: int, arbitrary: int, separation: float) -> float:
    """The largest failure probability of a law with this separation a t c, exactly, over three-point laws.

    Mass π at each of θ ± (t + a little) and the rest at θ, with t far beyond c: at the threshold a clean score, mapped to
    [0, 1], is v with probability π and 0 otherwise, and π v = ½ − a t c/2. A block of n then fails upwards if k clean
    scores and s replaced ones pass the half, k v > n/2 − s.
    """
    loads = {(replaced,) * len(sizes): 1.0}
    return _worst_law(sizes, loads, arbitrary, separation)


def attack_scattered(sizes: Sequence[int], corrupted: int, separation: float) -> float:
    """The same for m corrupted observations under a random partition, averaged over 2,000 drawn partitions."""
    generator = torch.Generator().manual_seed(0)
    block = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    loads: dict[tuple[int, ...], float] = {}
    for _ in range(2000):
        hit = block[torch.randperm(len(block), generator=generator)[:corrupted]]
        drawn = tuple(
            sorted(torch.bincount(hit, minlength=len(sizes)).tolist())
        )  # equal blocks: only how often matters
        loads[drawn] = loads.get(drawn, 0.0) + 1 / 2000
    return _worst_law(sizes, loads, 0, separation)


def attack_loads(sizes: Sequence[int], corrupted: int, delta: float) -> int:
    """The largest load that 20,000 drawn partitions reach in the fullest block more often than δ/B."""
    generator = torch.Generator().manual_seed(0)
    n, total = max(sizes), sum(sizes)
    drawn = torch.stack([(torch.randperm(total, generator=generator)[:n] < corrupted).sum() for _ in range(20_000)])
    return max(s for s in range(min(n, corrupted) + 1) if float((drawn >= s).double().mean()) > delta / len(sizes))


def _worst_law(sizes: Sequence[int], loads: dict[tuple[int, ...], float], arbitrary: int, separation: float) -> float:
    p, majority = (1 - separation) / 2, -(-len(sizes) // 2)
    worst = 0.0
    for v in [step / 100 for step in range(20, 101)]:
        if p / v > 0.5:
            continue
        fail = {
            (n, s): _binomial_tail(n, p / v, (n / 2 - s) / v)
            for each in loads
            for n, s in zip(sizes, each, strict=True)
        }
        total = 0.0
        for each, share in loads.items():
            tails = sorted(fail[n, s] for n, s in zip(sizes, each, strict=True))
            total += share * 2 * _at_least(majority - arbitrary, tails[arbitrary:])
        worst = max(worst, total)
    return worst


def _binomial_tail(n: int, p: float, least: float) -> float:
    """P(N ≥ least) for N ~ Binomial(n, p)."""
    start = max(0, math.ceil(least - 1e-9))
    return math.fsum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(start, n + 1))


def _at_least(k: int, chances: Sequence[float]) -> float:
    """P(at least k of the events), by listing which ones happen."""
    total = 0.0
    for which in range(2 ** len(chances)):
        happen = [bool(which >> b & 1) for b in range(len(chances))]
        if sum(happen) >= k:
            total += math.prod(p if h else 1 - p for p, h in zip(chances, happen, strict=True))
    return total
