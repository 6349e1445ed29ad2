"""What one contaminated reward does to a group, estimator by estimator (sec:reward_contamination).

One reward at a time is replaced by R ± ασ. For every response in turn: displacement of the reference, inflation of the
divisor, retained contrast and RMS deviation of the clean advantages. Medians within the group, mean of both signs; the
caller takes the median over groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from rovrl import baselines
from rovrl.config import RewardChannel
from rovrl.credit import FORMULAS, Credit
from rovrl.diagnostics import clean_deviation, contrast_retention, displacement, scale_inflation
from rovrl.groups import partition
from rovrl.output.intervals import Estimate, bootstrap
from rovrl.robust.blocks import Blocks
from rovrl.robust.location import pooled_whole_scale
from rovrl.robust.spread import spread
from rovrl.scales import ADAPTIVE_FLOOR, resolve

ALPHAS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
MEASURES = ("reference_displacement", "scale_inflation", "contrast_retention", "rms_deviation")
PEERS = ("dr_grpo", "rloo", "median_mad", "shortest_half", "winsor")
"""Those of `baselines.ADVANTAGES` that are shown beside ours."""
PIECE = 1 << 21
"""Numbers held at a time."""

Apply = Callable[[Tensor], Credit]


@dataclass(frozen=True)
class Contender:
    """A method with its settings and the name it goes by."""

    name: str
    title: str
    apply: Apply
    has_scale: bool = True
    """Peers return advantages alone: no reference, no divisor to compare."""


def contenders(rewards: Float[Tensor, "prompt group"], channel: RewardChannel, peers: bool = True) -> list[Contender]:
    """The paper's three estimators, the same with one block, ours with adaptive credit, and the peers.

    Blocks are drawn once and shared; the scale of small blocks and of adaptive settings is that of the clean rewards, as an
    earlier step would know it.
    """
    blocks, _ = partition(rewards.shape[-1], channel)
    whole = Blocks.contiguous(rewards.shape[-1], 1)
    scale, own = pooled_whole_scale(rewards, channel), spread([rewards])
    channel = resolve(channel, scale, blocks, spread=own)
    adaptive = resolve(replace(channel, credit_bound="adaptive", credit_floor="adaptive"), scale, spread=own)
    ours = [
        Contender("grpo", "GRPO/GSPO", _bound("grpo", blocks, channel)),
        Contender("center", "Robust center", _bound("center", blocks, channel)),
        Contender("credit", "A^credit", _bound("credit", blocks, channel)),
        Contender("center_b1", "Robust center, B = 1", _bound("center", whole, channel)),
        Contender("credit_b1", "A^credit, B = 1", _bound("credit", whole, channel)),
        Contender("credit_adaptive", "A^credit, adaptive", _bound("credit", blocks, adaptive)),
    ]
    return ours + [_peer(name) for name in PEERS] if peers else ours


def _bound(name: str, blocks: Blocks, channel: RewardChannel) -> Apply:
    return lambda x: FORMULAS[name](x, blocks, channel)


def _peer(name: str) -> Contender:
    def apply(x: Tensor) -> Credit:
        nothing = x.new_full(x.shape[:-1], torch.nan)
        return Credit(baselines.ADVANTAGES[name](x), nothing, nothing)

    return Contender(name, name.replace("_", "-"), apply, has_scale=False)


@torch.no_grad()
def measure(
    rewards: Float[Tensor, "prompt group"], contender: Contender, shift: float, sigma: float
) -> dict[str, Float[Tensor, " prompt"]]:
    """The four measures of every group for a shift of ± `shift` (already α·σ); displacement in units of σ."""
    group = rewards.shape[-1]
    pieces = [_measure(piece, contender, shift, sigma) for piece in rewards.split(max(1, PIECE // (2 * group * group)))]
    return {name: torch.cat([p[name] for p in pieces]) for name in MEASURES}


def _measure(rewards: Tensor, contender: Contender, shift: float, sigma: float) -> dict[str, Tensor]:
    prompts, group = rewards.shape
    clean = contender.apply(rewards)
    others = ~torch.eye(group, dtype=torch.bool)
    values: dict[str, list[Tensor]] = {name: [] for name in MEASURES}
    for sign in (1.0, -1.0):
        spiked = rewards.unsqueeze(1) + sign * shift * torch.eye(group, dtype=rewards.dtype)
        after = contender.apply(spiked.reshape(-1, group))
        advantages = after.advantages.view(prompts, group, group)
        before = clean.advantages.unsqueeze(1).expand_as(advantages)
        found = {
            "reference_displacement": displacement(after.reference.view(prompts, group), clean.reference[:, None])
            / sigma,
            "scale_inflation": scale_inflation(after.scale.view(prompts, group), clean.scale[:, None]),
            "contrast_retention": contrast_retention(advantages, before, others),
            "rms_deviation": clean_deviation(advantages, before, others),
        }
        for name, value in found.items():
            values[name].append(value.nanquantile(0.5, dim=-1))
    return {name: torch.stack(both).mean(0) for name, both in values.items()}


def sweep(
    rewards: Float[Tensor, "prompt group"], channel: RewardChannel, sigma: float, alphas: tuple[float, ...] = ALPHAS
) -> Iterator[tuple[Contender, float, dict[str, Tensor]]]:
    """(contender, α, measures per group) over all contenders and severities."""
    rewards = rewards.double()
    for contender in contenders(rewards, channel):
        for alpha in alphas:
            yield contender, alpha, measure(rewards, contender, alpha * sigma, sigma)


def summarize(values: Float[Tensor, " prompt"], draws: Tensor) -> Estimate:
    """The median over groups and its 95 % bootstrap interval; `draws` are resampled group numbers [replicate, prompt].

    Groups without contrast have no retention (NaN) and are left out.
    """
    return bootstrap(values.double(), draws, lambda samples: samples.nanquantile(0.5, dim=-1))


FAR, FEW = 4.0, 0.25
"""Spreads from the median beyond which a response lies far from its group, and the share of a group that may do so."""


def far_apart(rewards: Float[Tensor, "prompt group"], spread: float) -> int:
    """In how many groups a few responses lie far from all others: broken rewards, or right answers that are rare."""
    distance = (rewards - rewards.quantile(0.5, dim=-1, keepdim=True)).abs()
    far = (distance > FAR * spread).double().mean(-1)
    return int(((far > 0) & (far <= FEW)).sum()) if spread > 0 else 0


@dataclass(frozen=True)
class Suggestion:
    """What a credit bound of `multiple` spreads would cost and buy on these rewards."""

    multiple: float
    credit_bound: float
    credit_floor: float
    contrast_retention: float
    """Under a spike of 16 σ."""
    clean_correlation: float
    """Of clean advantages with GRPO's: what the bound costs when nothing is wrong."""


def suggestions(
    rewards: Float[Tensor, "prompt group"],
    channel: RewardChannel,
    sigma: float,
    multiples: tuple[float, ...] = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 10.0),
) -> tuple[float, list[Suggestion]]:
    """The spread of the rewards within groups, and what several credit bounds in its units would do."""
    rewards = rewards.double()
    blocks, _ = partition(rewards.shape[-1], channel)
    scale = spread([rewards])
    channel = resolve(channel, pooled_whole_scale(rewards, channel), blocks, spread=scale)
    plain = FORMULAS["grpo"](rewards, blocks, channel).advantages
    found = []
    for multiple in multiples if scale > 0 else ():
        settings = replace(channel, credit_bound=multiple * scale, credit_floor=ADAPTIVE_FLOOR * scale)
        apply = _bound("credit", blocks, settings)
        kept = measure(rewards, Contender("credit", "", apply), 16 * sigma, sigma)["contrast_retention"]
        shaped = apply(rewards).advantages
        correlation = torch.corrcoef(torch.stack((plain.flatten(), shaped.flatten())))[0, 1]
        found.append(
            Suggestion(
                multiple, multiple * scale, ADAPTIVE_FLOOR * scale, float(kept.nanquantile(0.5)), float(correlation)
            )
        )
    return scale, found
