"""Honest runs of every common kind of reward, without any fault: whatever the audit finds in them is a false accusation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rovrl_paper.fault_matrix.simulated import Array, Generator, Shape

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
