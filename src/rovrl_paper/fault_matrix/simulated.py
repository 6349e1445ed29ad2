"""A simulated run, and the faults that can be planted in one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import Array

STEPS, PROMPTS, GROUP, TOKENS = 24, 8, 16, 64
Generator = np.random.Generator
Shape = tuple[int, int, int]
"""(steps, prompts per step, responses per prompt)"""


@dataclass
class SimulatedRun:
    """A simulated run: rewards [step, prompt, response], and token log-ratios [response, token] of its last step."""

    reward: Array
    ratios: Array | None = None
    shuffled: bool = False
    repeat: NDArray[np.int64] | None = None
    """Group numbers in the order in which they are logged; None: each once."""


def token_ratios(generator: Generator) -> Array:
    """Token log-ratios after a few updates: most tokens barely move, a few carry the change."""
    small = generator.normal(0, 1e-3, (PROMPTS * GROUP, TOKENS))
    carry = generator.random(small.shape) < 0.1
    return small + carry * generator.normal(0, 6e-3, small.shape)


def _sd(run: SimulatedRun) -> float:
    return float(np.std(run.reward))


def spikes(rate: float, size: float) -> Callable[[SimulatedRun, Generator], SimulatedRun]:
    """Adds ±`size` standard deviations of all rewards to a share of them."""

    def plant(run: SimulatedRun, generator: Generator) -> SimulatedRun:
        hit = generator.random(run.reward.shape) < rate
        sign = np.where(generator.random(run.reward.shape) < 0.5, 1, -1)
        return replace(run, reward=run.reward + hit * sign * size * _sd(run))

    return plant


def stuck(steps: int) -> Callable[[SimulatedRun, Generator], SimulatedRun]:
    """The grader returns 0 for every response of some consecutive steps."""

    def plant(run: SimulatedRun, generator: Generator) -> SimulatedRun:
        reward = run.reward.copy()
        first = int(generator.integers(4, STEPS - steps - 3))
        reward[first : first + steps] = 0.0
        return replace(run, reward=reward)

    return plant


def missing(rate: float) -> Callable[[SimulatedRun, Generator], SimulatedRun]:
    """NaN in place of a share of the rewards."""
    return lambda run, g: replace(run, reward=np.where(g.random(run.reward.shape) < rate, np.nan, run.reward))


def repeated(share: float, whole_steps: bool) -> Callable[[SimulatedRun, Generator], SimulatedRun]:
    """Groups logged twice: whole steps, or single groups anywhere."""

    def plant(run: SimulatedRun, generator: Generator) -> SimulatedRun:
        order = np.arange(STEPS * PROMPTS)
        if whole_steps:
            again = generator.choice(STEPS, max(1, round(share * STEPS)), replace=False)
            extra = np.concatenate([order.reshape(STEPS, PROMPTS)[step] for step in again])
        else:
            extra = generator.choice(order, max(1, round(share * len(order))), replace=False)
        return replace(run, repeat=np.concatenate([order, extra]))

    return plant


def wrong_groups(run: SimulatedRun, generator: Generator) -> SimulatedRun:
    """Rows of a step interleaved before they were cut into groups: a group holds responses to many prompts."""
    return replace(run, reward=run.reward.transpose(0, 2, 1).reshape(run.reward.shape), shuffled=True)


def scale_jump(factor: float) -> Callable[[SimulatedRun, Generator], SimulatedRun]:
    """All rewards multiplied from some step on."""

    def plant(run: SimulatedRun, generator: Generator) -> SimulatedRun:
        reward = run.reward.copy()
        reward[int(generator.integers(6, STEPS - 6)) :] *= factor
        return replace(run, reward=reward)

    return plant


def bursts(rate: float, size: float) -> Callable[[SimulatedRun, Generator], SimulatedRun]:
    """A fifth of the tokens of some responses, in a row, moved by `size`."""

    def plant(run: SimulatedRun, generator: Generator) -> SimulatedRun:
        ratios, width = token_ratios(generator) if run.ratios is None else run.ratios.copy(), TOKENS // 5
        for row in np.flatnonzero(generator.random(len(ratios)) < rate).tolist() or [0]:
            first = int(generator.integers(0, TOKENS - width))
            ratios[row, first : first + width] += size
        return replace(run, ratios=ratios)

    return plant


OUTLIERS = {"faulty_rewards", "dominating_rewards", "contrast_lost"}
ASKED = {"heavy_tail", "reward_levels", "rare_bonus", "rare_penalty", "clustered_rewards"}
"""The notes that ask the user about rewards that stand out and need not be faults."""
FAULTS: dict[str, tuple[Callable[[SimulatedRun, Generator], SimulatedRun], set[str]]] = {
    "spikes of 4 sd, 1 %": (spikes(0.01, 4), OUTLIERS),
    "spikes of 8 sd, 0.2 %": (spikes(0.002, 8), OUTLIERS),
    "spikes of 8 sd, 1 %": (spikes(0.01, 8), OUTLIERS),
    "spikes of 16 sd, 1 %": (spikes(0.01, 16), OUTLIERS),
    "spikes of 16 sd, 10 %": (spikes(0.10, 16), OUTLIERS),
    "spikes of 1000 sd, 20 %": (spikes(0.20, 1000), OUTLIERS),
    "grader stuck, 1 step": (stuck(1), {"stuck_grader"}),
    "grader stuck, 4 steps": (stuck(4), {"stuck_grader"}),
    "NaN rewards, 0.5 %": (missing(0.005), {"nonfinite_rewards"}),
    "NaN rewards, 5 %": (missing(0.05), {"nonfinite_rewards"}),
    "steps logged twice, 10 %": (repeated(0.1, True), {"repeated_groups"}),
    "single groups repeated, 5 %": (repeated(0.05, False), {"repeated_groups"}),
    "wrong group ids": (wrong_groups, {"groups_alike", "mixed_prompts"}),
    "scale jumps by 10": (scale_jump(10.0), {"scale_jump"}),
    "scale jumps to a tenth": (scale_jump(0.1), {"scale_jump"}),
    "token bursts of 0.1, 2 %": (bursts(0.02, 0.1), {"ratio_bursts"}),
    "token bursts of 1, 5 %": (bursts(0.05, 1.0), {"ratio_bursts"}),
}
"""Name -> (how it is planted, the codes of which one must be reported)."""
