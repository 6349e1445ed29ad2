"""Simulated rewards: every world in which our methods are compared, all of it seeded. A world is one entry of `SIMULATED`.

The score is like a learned one: an offset per prompt, a contrast between right and wrong, a little noise, with the spreads that
the paper publishes. Prompts are of every difficulty: their chance of a right answer is Beta(0.7, 0.7), or Beta(0.3, 2.5) where
right answers are rare. `published_rewards` has no verdicts: it is drawn to match what the paper says of its saved rewards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

GLOBAL_SD = 1.165
"""The paper's global standard deviation of rewards; its spikes are 16 of them."""
WITHIN_SD = 0.165
"""Its median population standard deviation within a group."""
CONTESTED = 0.4
"""Log-scale spread of the groups' own standard deviations: some prompts are contested, some are not (our assumption)."""
CRASH = -10.0
"""What a grader that fails may answer."""


@dataclass(frozen=True)
class Knobs:
    """What a user can set."""

    prompts: int = 256
    group: int = 16
    rate: float = 0.1
    """The chance that a response is a fault, in worlds that have faults and do not name another."""
    size: float = 16 * GLOBAL_SD
    """How far a fault moves a reward."""
    contrast: float = 0.33
    """How much better a right answer is scored."""
    noise: float = 0.05


@dataclass(frozen=True)
class Truth:
    """Rewards [prompt, response] with the verdicts behind them and the faults among them."""

    rewards: np.ndarray
    verdicts: np.ndarray
    faults: np.ndarray


class Batch:
    """The random parts that worlds are made of, drawn in the same order in every world."""

    def __init__(self, knobs: Knobs, rng: np.random.Generator, rare: bool) -> None:
        self.knobs, self.rng, self.shape = knobs, rng, (knobs.prompts, knobs.group)
        chance = rng.beta(*((0.3, 2.5) if rare else (0.7, 0.7)), knobs.prompts)
        self.right = (rng.random(self.shape) < chance[:, None]).astype(float)
        """The verdicts; a reward with finer ones sets them."""
        self.offset = rng.normal(0, 1.15, (knobs.prompts, 1))

    def half(self) -> np.ndarray:
        """Half of the prompts [prompt, 1], by chance."""
        return self.rng.random((self.knobs.prompts, 1)) < 0.5


Values = Callable[[Batch], np.ndarray]


@dataclass(frozen=True)
class World:
    """How a batch is rewarded, and what its faults do."""

    title: str
    reward: Values
    """[prompt, response], before any fault."""
    rate: float | Values | None = 0.0
    """The chance that a response is a fault; None: the knob's."""
    size: Values = lambda batch: np.asarray(batch.knobs.size)
    """How far a fault moves a reward, up or down by chance."""
    broken: Callable[[Batch, np.ndarray], np.ndarray | float] | None = None
    """What the reward of a fault becomes, where that is not a move."""
    rare: bool = False
    """Whether right answers are rare."""

    def draw(self, knobs: Knobs, rng: np.random.Generator) -> Truth:
        """One batch."""
        batch = Batch(knobs, rng, self.rare)
        rewards = self.reward(batch)
        rate = self.rate(batch) if callable(self.rate) else knobs.rate if self.rate is None else self.rate
        size = self.size(batch)
        sign, hit = rng.choice([-1, 1], batch.shape), rng.random(batch.shape) < rate
        faulty = rewards + sign * size if self.broken is None else self.broken(batch, rewards)
        return Truth(np.where(hit, faulty, rewards), batch.right, hit)


def score(batch: Batch, noise: np.ndarray | None = None) -> np.ndarray:
    """A learned score: the prompt's offset, the contrast, and normal noise or the given one."""
    noise = batch.rng.normal(0, 1, batch.shape) if noise is None else noise
    return batch.offset + batch.knobs.contrast * batch.right + batch.knobs.noise * noise


def heavy(batch: Batch) -> np.ndarray:
    """A score whose noise has heavy tails."""
    return score(batch, batch.rng.standard_t(1.5, batch.shape))


def scales(batch: Batch) -> np.ndarray:
    """A score in another unit on every prompt."""
    return score(batch) * np.exp(batch.rng.normal(0, 1, (batch.knobs.prompts, 1)))


def tenfold(batch: Batch) -> np.ndarray:
    """A score that is ten times as large on half of the prompts."""
    return score(batch) * np.where(batch.half(), 10.0, 1.0)


def verdict(batch: Batch) -> np.ndarray:
    """0 or 1."""
    return batch.right


def bonus(batch: Batch) -> np.ndarray:
    """0 or 1 and a small continuous part."""
    return batch.right + 0.1 * batch.rng.random(batch.shape)


def luck(batch: Batch) -> np.ndarray:
    """`bonus`, right answers as rare on every prompt."""
    batch.right = (batch.rng.random(batch.shape) < batch.knobs.rate).astype(float)
    return bonus(batch)


def hardly(batch: Batch) -> np.ndarray:
    """`bonus`, right answers at rates that hardly vary between prompts."""
    rate = batch.knobs.rate
    chance = batch.rng.beta(20 * rate, 20 * (1 - rate), (batch.knobs.prompts, 1))
    batch.right = (batch.rng.random(batch.shape) < chance).astype(float)
    return bonus(batch)


def quarters(batch: Batch) -> np.ndarray:
    """Grades in quarters and a little noise."""
    batch.right = batch.rng.binomial(4, batch.rng.beta(0.7, 0.7, (batch.knobs.prompts, 1)), batch.shape) / 4
    return batch.right + batch.rng.normal(0, 0.01, batch.shape)


def units(batch: Batch) -> np.ndarray:
    """Grades up to 1 on half of the prompts, up to 100 on the others."""
    hundred = 100 * batch.right + batch.rng.normal(0, 3, batch.shape)
    return np.where(batch.half(), batch.right, hundred)


def beside_verdicts(most: int) -> Values:
    """Half of the prompts graded 0 or 1, half 0 to `most` in whole marks, as many as parts of the answer are right."""

    def reward(batch: Batch) -> np.ndarray:
        marks = batch.rng.binomial(most, batch.rng.beta(0.7, 0.7, (batch.knobs.prompts, 1)), batch.shape)
        graded = batch.half()
        rewards = np.where(graded, marks, batch.right)
        batch.right = np.where(graded, marks / most, batch.right)
        return rewards

    return reward


def marks(batch: Batch) -> np.ndarray:
    """Marks from 1 to 5, as a judge gives them."""
    level = 3 + batch.rng.normal(0, 1, (batch.knobs.prompts, 1))
    found = np.clip(np.round(level + 0.8 * batch.rng.normal(0, 1, batch.shape)), 1, 5)
    batch.right = (found - 1) / 4
    return found


def cost(batch: Batch) -> np.ndarray:
    """A cost with a long tail, which is what the answer is worth."""
    level = batch.rng.normal(0, 0.5, (batch.knobs.prompts, 1))
    batch.right = -np.exp(level + batch.rng.normal(0, 1.6, batch.shape))
    return batch.right


def _varied(batch: Batch) -> np.ndarray:
    return batch.knobs.size * 10 ** batch.rng.uniform(-1, 1, batch.shape)


def _uneven(batch: Batch) -> np.ndarray:
    return np.minimum(batch.rng.beta(0.3, 2.7, (batch.knobs.prompts, 1)) * batch.knobs.rate / 0.1, 1.0)


def _one_sign_per_prompt(batch: Batch, rewards: np.ndarray) -> np.ndarray:
    return rewards + batch.rng.choice([-1, 1], (batch.knobs.prompts, 1)) * batch.knobs.size


SIMULATED: Mapping[str, World] = {
    "clean": World("clean score", score),
    "spikes5": World("5 % spikes", score, 0.05),
    "spikes10": World("10 % spikes", score, 0.1),
    "spikes20": World("20 % spikes", score, 0.2),
    "spikes30": World("30 % spikes", score, 0.3),
    "spikes": World("spikes at --rate", score, None),
    "upwards": World("spikes upwards only", score, None, broken=lambda b, rewards: rewards + b.knobs.size),
    "small": World("faults of three times the contrast", score, None, size=lambda b: np.asarray(3 * b.knobs.contrast)),
    "varied": World("faults of sizes over two decades", score, None, size=_varied),
    "by_prompt": World("faults whose rate depends on the prompt", score, _uneven),
    "signed": World("spikes with one sign per prompt", score, None, broken=_one_sign_per_prompt),
    "rescaled": World("a judge that answers ten times the score", score, None, broken=lambda b, rewards: 10 * rewards),
    "judged": World("marks from 1 to 5, crashes at -10", marks, None, broken=lambda b, rewards: CRASH),
    "binary": World("0/1 rewards", verdict),
    "binary10": World("0/1 rewards, spikes", verdict, None),
    "crash": World("0/1 rewards, crashes at -10", verdict, None, broken=lambda b, rewards: CRASH),
    "bonus": World("0/1 and a small bonus", bonus),
    "beyond": World(
        "0/1 and a small bonus, faults a little above right answers",
        bonus,
        None,
        broken=lambda b, rewards: rewards + 1.65,
    ),
    "rarebonus": World("rare right answers and a small bonus", bonus, rare=True),
    "rarebonus10": World("rare right answers, a small bonus, spikes", bonus, None, rare=True),
    "heavy": World("honest heavy tails", heavy),
    "scales": World("prompts of different scales", scales),
    "units": World("grades up to 1 and up to 100 in one batch", units),
    "verdicts10": World("0/1 and whole marks up to 10 in one batch", beside_verdicts(10)),
    "verdicts100": World("0/1 and whole marks up to 100 in one batch", beside_verdicts(100)),
    "tenfold": World("scores, on half of the prompts ten times as large", tenfold),
    "quarters": World("grades in quarters and a little noise", quarters),
    "hardly": World("right answers at rates that hardly vary, and a small bonus", hardly),
    "inside": World(
        "a grader that crashes with 0, inside the range of the scores", score, None, broken=lambda b, rewards: 0.0
    ),
    "tail": World("a reward that is a cost with a long tail", cost),
    "luck": World("right answers as rare on every prompt, and a small bonus", luck),
}
"""By name."""
ASIDE = ("spikes", "inside", "tail")
"""Worlds that are drawn only where they are asked for."""


def draw(name: str, seed: int, knobs: Knobs = Knobs()) -> Truth:  # noqa: B008 - frozen
    """One batch of a named world."""
    return SIMULATED[name].draw(knobs, np.random.default_rng(seed))


def published_rewards(groups: int, group: int, generator: torch.Generator) -> Tensor:
    """Rewards [prompt, group] with the published facts of sec:reward_contamination, exact in the sample.

    Within a prompt Gaussian, with a standard deviation that varies log-normally about its median; prompt offsets make up
    the rest of the global spread.
    """
    noise = torch.randn(groups, group, generator=generator, dtype=torch.float64)
    noise = noise - noise.mean(-1, keepdim=True)
    spread = torch.exp(CONTESTED * torch.randn(groups, 1, generator=generator, dtype=torch.float64))
    noise = noise * spread
    noise = noise * (WITHIN_SD / noise.std(-1, correction=0).quantile(0.5))
    offset = torch.randn(groups, 1, generator=generator, dtype=torch.float64)
    offset = (offset - offset.mean()) / offset.std(correction=0)
    return noise + offset * math.sqrt(GLOBAL_SD**2 - float(noise.square().mean()))
