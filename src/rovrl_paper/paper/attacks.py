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


FAR = 1000.0
"""The threshold of `far_law` in score widths, and its outer points in thresholds.

A tail bound depends on the law through a t c alone, and the farther out, the nearer an attack comes to it: the scores are
then ±M_c, and Ĉ_B, which is a few score widths, is nothing beside t."""


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


def far_law(separation: float) -> tuple[list[float], list[float]]:
    """The points and weights of a law around θ = 0 that separates just so at t = `FAR` score widths, and more before.

    Mass π at each of ±`FAR` t and the rest at 0, with π from −g(t) = a t, in units of c:

        (1 − 2π) ψ(t) − π [ψ(L − t) − ψ(L + t)] = a t c,   L = FAR t

    −g is concave on [0, t] but for a part of the size of the bracket, so −g(u) ≥ a u there: the whole premise, not its end.
    """
    near, gap = _score(FAR), _score(FAR * FAR - FAR) - _score(FAR * FAR + FAR)
    mass = max(0.0, (near - separation) / (2 * near + gap))
    return [0.0, FAR * FAR, -FAR * FAR], [1 - 2 * mass, mass, mass]


def attack_law(sizes: Sequence[int], replaced: int, arbitrary: int, separation: float) -> float:
    """P(|θ̂_RoVR − θ| > t + Ĉ_B) of `far_law(separation)` under attack, exactly; `separation` is a t c.

    The attacker sees every clean draw, then sends the `replaced` values of each block and the arbitrary blocks, those with
    the smallest tails, to the side where they do harm. A block is carried off if half of its values are then on that side;
    its center is so far out that no outer correction brings a median of such centers back to t.
    """
    loads = {(replaced,) * len(sizes): 1.0}
    return _failure(sizes, loads, arbitrary, separation, chosen=True)


def attack_scattered(sizes: Sequence[int], corrupted: int, separation: float) -> float:
    """The same for m observations whose places are fixed before a random partition and the draws: 2,000 drawn partitions."""
    generator = torch.Generator().manual_seed(0)
    block = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    loads: dict[tuple[int, ...], float] = {}
    for _ in range(2000):
        hit = block[torch.randperm(len(block), generator=generator)[:corrupted]]
        drawn = tuple(
            sorted(torch.bincount(hit, minlength=len(sizes)).tolist())
        )  # equal blocks: only how often matters
        loads[drawn] = loads.get(drawn, 0.0) + 1 / 2000
    return _failure(sizes, loads, 0, separation, chosen=False)


def attack_loads(sizes: Sequence[int], corrupted: int, delta: float) -> int:
    """The largest load that 20,000 drawn partitions reach in the fullest block more often than δ/B."""
    generator = torch.Generator().manual_seed(0)
    n, total = max(sizes), sum(sizes)
    drawn = torch.stack([(torch.randperm(total, generator=generator)[:n] < corrupted).sum() for _ in range(20_000)])
    return max(s for s in range(min(n, corrupted) + 1) if float((drawn >= s).double().mean()) > delta / len(sizes))


def _failure(
    sizes: Sequence[int], loads: dict[tuple[int, ...], float], arbitrary: int, separation: float, *, chosen: bool
) -> float:
    """The mean over the loads of P(a majority of the blocks can be carried off to one side, or to the other)."""
    _, (_, mass, _) = far_law(separation)
    majority = -(-len(sizes) // 2)
    met = {pair for each in loads for pair in zip(sizes, each, strict=True)}
    carried = {(n, s): _carried(n, s, mass, draws=n if chosen else n - s) for n, s in met}
    total = 0.0
    for each, share in loads.items():
        blocks = sorted((carried[n, s] for n, s in zip(sizes, each, strict=True)), key=sum)
        law = {(arbitrary, arbitrary): 1.0}  # [blocks that can go up, blocks that can go down]
        for one, both in blocks[arbitrary:]:
            after: dict[tuple[int, int], float] = {}
            for (up, down), p in law.items():
                moves = (((0, 0), 1 - 2 * one - both), ((1, 0), one), ((0, 1), one), ((1, 1), both))
                for (more_up, more_down), chance in moves:
                    reached = up + more_up, down + more_down
                    after[reached] = after.get(reached, 0.0) + p * chance
            law = after
        total += share * math.fsum(p for most, p in law.items() if max(most) >= majority)
    return total


def _carried(n: int, replaced: int, mass: float, draws: int) -> tuple[float, float]:
    """The chances that a block can be carried off to one given side but not the other, and to both.

    `draws` is how many clean values count: all n where the attacker chooses what to replace after seeing them, which then
    lies elsewhere than on that side; the n − `replaced` others where the places were fixed before.
    """
    one = both = 0.0
    for up in range(draws + 1):
        for down in range(draws - up + 1):
            rest = draws - up - down
            chance = math.comb(draws, up) * math.comb(draws - up, down) * mass ** (up + down) * (1 - 2 * mass) ** rest
            goes_up, goes_down = _passes(up, rest, n, replaced), _passes(down, rest, n, replaced)
            both += chance * (goes_up and goes_down)
            one += chance * (goes_up and not goes_down)
    return one, both


def _passes(there: int, middle: int, n: int, replaced: int) -> bool:
    """Whether the center follows: half of the values is enough unless the others are all just as far out on the other side.

    A replaced value is as far out as it likes.
    """
    there += replaced
    return 2 * there > n or (2 * there == n and (middle > 0 or replaced > 0))


def _score(x: float) -> float:
    """ψ_c/M_c at x score widths."""
    return x / math.hypot(1.0, x)
