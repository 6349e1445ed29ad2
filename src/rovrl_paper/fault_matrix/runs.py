"""Simulated runs of the fault matrix: honest ones of every common kind of reward, and faults planted in them."""

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


def spikes(rate: float, size: float) -> Callable[[SimulatedRun, Generator], SimulatedRun]:
    """Adds ±`size` standard deviations of all rewards to a share of them."""

    def plant(run: SimulatedRun, generator: Generator) -> SimulatedRun:
        hit = generator.random(run.reward.shape) < rate
        sign = np.where(generator.random(run.reward.shape) < 0.5, 1, -1)
        return replace(run, reward=run.reward + hit * sign * size * float(np.std(run.reward)))

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


SHAPES: tuple[tuple[int, int], ...] = ((1000, 2), (250, 4), (24, 8), (60, 32), (12, 128), (6, 512))
"""(steps, prompts per step) of the honest runs."""
SIZES = (4, 8, 16)
"""Responses per prompt."""


def verdicts(generator: Generator, shape: Shape) -> Array:
    """0/1: prompts differ in difficulty, and the policy gets better over the steps."""
    skill = np.linspace(-0.5, 1.5, shape[0])[:, None, None]
    chance = 1 / (1 + np.exp(-(skill + generator.normal(0, 1.5, (*shape[:2], 1)))))
    return (generator.random(shape) < chance).astype(np.float64)


def verdicts_and_bonus(generator: Generator, shape: Shape) -> Array:
    """0/1 and a shaping term between 0 and 0.1: the most common recipe there is."""
    return verdicts(generator, shape) + 0.1 * generator.random(shape)


def verdicts_and_length(generator: Generator, shape: Shape) -> Array:
    """0/1 minus 1e-4 for every token; lengths are log-normal about 400, and prompts have lengths of their own."""
    usual = np.exp(generator.normal(6, 0.3, (*shape[:2], 1)))
    return verdicts(generator, shape) - 1e-4 * np.round(usual * np.exp(generator.normal(0, 0.4, shape)))


def log_normal(generator: Generator, shape: Shape) -> Array:
    """Skewed and heavy: a log-normal reward on top of the prompt's own level."""
    return _levels(generator, shape) + np.exp(generator.normal(0, 1, shape))


def student(generator: Generator, shape: Shape) -> Array:
    """Heavy tails on both sides: t with 3 degrees of freedom on top of the prompt's own level."""
    return _levels(generator, shape) + generator.standard_t(3, shape)


def exponential(generator: Generator, shape: Shape) -> Array:
    """Skewed: an exponential reward on top of the prompt's own level."""
    return _levels(generator, shape) + generator.exponential(1, shape)


def mixed_tasks(generator: Generator, shape: Shape) -> Array:
    """Every prompt is of one of three tasks with rewards of their own: 0/1, a small score, or marks up to 10."""
    shares = generator.dirichlet((1, 2, 1))
    task = generator.choice(3, (*shape[:2], 1), p=shares)
    small = 0.2 + 0.02 * _levels(generator, shape) + generator.normal(0, 0.02, shape)
    marks = generator.binomial(10, np.broadcast_to(generator.beta(2, 2, (*shape[:2], 1)), shape))
    return np.choose(np.broadcast_to(task, shape), [verdicts(generator, shape), small, marks.astype(np.float64)])


def rare_answers(generator: Generator, shape: Shape) -> Array:
    """Few right answers (2 %, most of them to a few prompts) beside a small shaping term: what matters stands out."""
    chance = generator.beta(0.1, 4.9, (*shape[:2], 1))
    return (generator.random(shape) < chance) + 0.1 * generator.random(shape)


def ranks(generator: Generator, shape: Shape) -> Array:
    """The share of the other responses to the prompt that a response beats: every group has the same mean."""
    return generator.normal(size=shape).argsort(-1).argsort(-1) / (shape[2] - 1.0)


def learned_format(generator: Generator, shape: Shape) -> Array:
    """0/1, and -1 without a format that the policy learns in the first quarter of the run."""
    time = np.arange(shape[0])[:, None, None]
    formed = generator.random(shape) < 1 / (1 + np.exp(-(time - shape[0] / 4)))
    return np.where(formed, verdicts(generator, shape), -1.0)


def penalties(generator: Generator, shape: Shape) -> Array:
    """A score minus a price for repetition, between 0.5 and 3, which a few prompts bring about."""
    chance = np.where(generator.random((*shape[:2], 1)) < 0.1, 0.4, 0.0)
    return scores(generator, shape) - (generator.random(shape) < chance) * generator.uniform(0.5, 3, shape)


def scores(generator: Generator, shape: Shape) -> Array:
    """Like a learned reward: a level per prompt, a small contrast, noise (the paper's published reward facts)."""
    right = generator.random(shape) < generator.beta(1.5, 1.5, (*shape[:2], 1))
    return 1.15 * _levels(generator, shape) + 0.33 * right + generator.normal(0, 0.05, shape)


def marks(generator: Generator, shape: Shape) -> Array:
    """A few marks added up: format 0.1, parts 0 to 0.6 in tenths, the answer 0.3."""
    ability = generator.beta(2, 2, (*shape[:2], 1))
    form = 0.1 * (generator.random(shape) < 0.9)
    parts = generator.binomial(6, np.broadcast_to(ability, shape)) / 10
    return np.round(form + parts + 0.3 * (generator.random(shape) < ability), 10)


def _levels(generator: Generator, shape: Shape) -> Array:
    return generator.normal(0, 1, (*shape[:2], 1))


HONEST: dict[str, Callable[[Generator, Shape], Array]] = {
    "score": scores,
    "rule": verdicts,
    "graded": marks,
    "heavy": student,
    "0/1 + 0.1 uniform": verdicts_and_bonus,
    "0/1 - 1e-4 length": verdicts_and_length,
    "log-normal": log_normal,
    "exponential": exponential,
    "mixed tasks": mixed_tasks,
    "rare answers": rare_answers,
    "ranks": ranks,
    "learned format": learned_format,
    "penalties": penalties,
}
"""Name -> rewards [step, prompt, response] of a run without any fault."""
