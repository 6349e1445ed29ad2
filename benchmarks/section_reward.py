"""The reward channel beside scipy's elementwise root finder doing only the M-centers; leave-one-out; growth in groups."""

from __future__ import annotations

import numpy as np
import torch

from measuring import Row, compare
from rovrl import ADVANTAGES, Blocks, RewardChannel
from rovrl_paper.worlds import Knobs, draw

CHANNEL = RewardChannel()
ADAPTIVE = RewardChannel(credit_bound="adaptive", credit_floor="adaptive")
GUARDED = RewardChannel(credit_bound="adaptive", credit_floor="adaptive", faults="reject")


def run(quick: bool) -> list[Row]:
    """All rows of the reward channel."""
    groups, repeats = (256, 3) if quick else (4096, 21)
    rewards = torch.randn(groups, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    many = rewards.repeat(16, 1)

    def credit() -> torch.Tensor:
        return ADVANTAGES["credit"](rewards, CHANNEL)

    def large() -> torch.Tensor:
        return ADVANTAGES["credit"](many, CHANNEL)

    def sixteen_times() -> None:
        for _ in range(16):
            credit()

    def loo() -> torch.Tensor:
        return ADVANTAGES["loo"](rewards, CHANNEL)

    size = f"{groups} x 16 float64"
    return [
        compare(
            f"scipy's M-centers / all of the credit advantages, {size}",
            _scipy_centers(rewards),
            credit,
            repeats if quick else 11,
            must=10,
            at_least=True,
        ),
        compare(f"leave-one-out / credit advantages, {size}", loo, credit, repeats if quick else 11, must=30, goal=16),
        *(
            compare(
                f'faults="reject" / adaptive credit, {what}, {size}',
                lambda rewards=rewards: ADVANTAGES["credit"](rewards, GUARDED),
                lambda rewards=rewards: ADVANTAGES["credit"](rewards, ADAPTIVE),
                repeats if quick else 11,
                must=2,
            )
            for what, rewards in _scores(groups)
        ),
        compare(f"credit / GRPO advantages, {size}", credit, lambda: ADVANTAGES["grpo"](rewards, CHANNEL), repeats),
        compare(
            f"growth from {groups} to {16 * groups} groups, against linear",
            large,
            sixteen_times,
            3 if quick else 9,
            must=1.15,
        ),
    ]


def _scores(groups: int) -> list[tuple[str, torch.Tensor]]:
    """Simulated scores, clean, with a tenth and with three tenths of them spiked."""
    worlds = {"clean": "clean", "10 % spikes": "spikes10", "30 % spikes": "spikes30"}
    return [(name, torch.from_numpy(draw(world, 1, Knobs(prompts=groups)).rewards)) for name, world in worlds.items()]


def _scipy_centers(rewards: torch.Tensor):
    """find_root on the score of every block; columns as arguments, since it drops elements as they converge."""
    from scipy.optimize import elementwise

    values, mask = Blocks.random(16, CHANNEL.num_blocks).gather(rewards)
    columns = values.flatten(0, 1).T.contiguous().numpy()
    weights = mask.expand(values.shape).flatten(0, 1).T.contiguous().double().numpy()
    low = np.where(weights > 0, columns, np.inf).min(0)
    high = np.where(weights > 0, columns, -np.inf).max(0)
    slots = len(columns)

    def score(u, *arguments):
        total = 0.0
        for x, weight in zip(arguments[:slots], arguments[slots:], strict=True):
            r = x - u
            total = total + weight * r / np.sqrt(1 + r * r)
        return total

    return lambda: elementwise.find_root(score, (low, high), args=(*columns, *weights))
