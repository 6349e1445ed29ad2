"""Batches of rewards whose truth is known: verdicts, rewards, and which rewards are faults. All of it simulated and seeded.

The score is like a learned one: an offset per prompt, a contrast between right and wrong, a little noise, with the spreads that
the paper publishes. Prompts are of every difficulty: their chance of a right answer is Beta(0.7, 0.7), or Beta(0.3, 2.5) where
right answers are rare.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

GLOBAL_SD = 1.165
"""The paper's global standard deviation of rewards; its spikes are 16 of them."""


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


class _Draw:
    """The random parts that worlds are made of, drawn in the same order in every world."""

    def __init__(self, knobs: Knobs, rng: np.random.Generator, rare: bool = False) -> None:
        self.knobs, self.rng, self.shape = knobs, rng, (knobs.prompts, knobs.group)
        chance = rng.beta(*((0.3, 2.5) if rare else (0.7, 0.7)), knobs.prompts)
        self.right = (rng.random(self.shape) < chance[:, None]).astype(float)
        self.offset = rng.normal(0, 1.15, (knobs.prompts, 1))

    def score(self, noise: np.ndarray | None = None) -> np.ndarray:
        noise = self.rng.normal(0, 1, self.shape) if noise is None else noise
        return self.offset + self.knobs.contrast * self.right + self.knobs.noise * noise

    def with_faults(
        self, rewards: np.ndarray, rate: float | np.ndarray, size: float | np.ndarray | None = None
    ) -> Truth:
        """Faults in both directions, each response with its chance."""
        sign, hit = self.rng.choice([-1, 1], self.shape), self.rng.random(self.shape) < rate
        moved = self.knobs.size if size is None else size
        return Truth(rewards + hit * sign * moved, self.right, hit)


World = Callable[[Knobs, np.random.Generator], Truth]


def _spikes(rate: float | None) -> World:
    def world(knobs: Knobs, rng: np.random.Generator) -> Truth:
        draw = _Draw(knobs, rng)
        return draw.with_faults(draw.score(), knobs.rate if rate is None else rate)

    return world


def _clean(reward: Callable[[_Draw], np.ndarray], rare: bool = False) -> World:
    def world(knobs: Knobs, rng: np.random.Generator) -> Truth:
        draw = _Draw(knobs, rng, rare)
        return draw.with_faults(reward(draw), 0.0)

    return world


def _spiked(reward: Callable[[_Draw], np.ndarray], rare: bool = False) -> World:
    def world(knobs: Knobs, rng: np.random.Generator) -> Truth:
        draw = _Draw(knobs, rng, rare)
        return draw.with_faults(reward(draw), knobs.rate)

    return world


def _upwards(knobs: Knobs, rng: np.random.Generator) -> Truth:
    draw = _Draw(knobs, rng)
    truth = draw.with_faults(draw.score(), knobs.rate, 0.0)
    return replace(truth, rewards=truth.rewards + truth.faults * knobs.size)


def _small(knobs: Knobs, rng: np.random.Generator) -> Truth:
    draw = _Draw(knobs, rng)
    return draw.with_faults(draw.score(), knobs.rate, 3 * knobs.contrast)


def _varied(knobs: Knobs, rng: np.random.Generator) -> Truth:
    draw = _Draw(knobs, rng)
    return draw.with_faults(draw.score(), knobs.rate, knobs.size * 10 ** rng.uniform(-1, 1, draw.shape))


def _inside(knobs: Knobs, rng: np.random.Generator) -> Truth:
    draw = _Draw(knobs, rng)
    truth = draw.with_faults(draw.score(), knobs.rate, 0.0)
    return replace(truth, rewards=np.where(truth.faults, 0.0, truth.rewards))


def _tail(knobs: Knobs, rng: np.random.Generator) -> Truth:
    draw = _Draw(knobs, rng)
    draw.right = -np.exp(rng.normal(0, 0.5, (knobs.prompts, 1)) + rng.normal(0, 1.6, draw.shape))
    return draw.with_faults(draw.right, 0.0)


def _by_prompt(knobs: Knobs, rng: np.random.Generator) -> Truth:
    draw = _Draw(knobs, rng)
    return draw.with_faults(draw.score(), np.minimum(rng.beta(0.3, 2.7, (knobs.prompts, 1)) * knobs.rate / 0.1, 1.0))


def _luck(knobs: Knobs, rng: np.random.Generator) -> Truth:
    draw = _Draw(knobs, rng)
    draw.right = (rng.random(draw.shape) < knobs.rate).astype(float)
    return draw.with_faults(_bonus(draw), 0.0)


def _hardly(knobs: Knobs, rng: np.random.Generator) -> Truth:
    draw = _Draw(knobs, rng)
    chance = rng.beta(20 * knobs.rate, 20 * (1 - knobs.rate), (knobs.prompts, 1))
    draw.right = (rng.random(draw.shape) < chance).astype(float)
    return draw.with_faults(_bonus(draw), 0.0)


def _quarters(knobs: Knobs, rng: np.random.Generator) -> Truth:
    draw = _Draw(knobs, rng)
    draw.right = rng.binomial(4, rng.beta(0.7, 0.7, (knobs.prompts, 1)), draw.shape) / 4
    return draw.with_faults(draw.right + rng.normal(0, 0.01, draw.shape), 0.0)


def _bonus(draw: _Draw) -> np.ndarray:
    return draw.right + 0.1 * draw.rng.random(draw.shape)


def _units(draw: _Draw) -> np.ndarray:
    hundred = 100 * draw.right + draw.rng.normal(0, 3, draw.shape)
    return np.where(draw.rng.random((draw.knobs.prompts, 1)) < 0.5, draw.right, hundred)


def _beside_verdicts(most: int) -> World:
    """Half of the prompts graded 0 or 1, half 0 to `most` in whole marks, as many as parts of the answer are right."""

    def world(knobs: Knobs, rng: np.random.Generator) -> Truth:
        draw = _Draw(knobs, rng)
        marks = rng.binomial(most, rng.beta(0.7, 0.7, (knobs.prompts, 1)), draw.shape)
        graded = rng.random((knobs.prompts, 1)) < 0.5
        rewards = np.where(graded, marks, draw.right)
        draw.right = np.where(graded, marks / most, draw.right)
        return draw.with_faults(rewards, 0.0)

    return world


def _tenfold(draw: _Draw) -> np.ndarray:
    return draw.score() * np.where(draw.rng.random((draw.knobs.prompts, 1)) < 0.5, 10.0, 1.0)


def _crash(knobs: Knobs, rng: np.random.Generator) -> Truth:
    draw = _Draw(knobs, rng)
    truth = draw.with_faults(draw.right, knobs.rate, 0.0)
    return replace(truth, rewards=np.where(truth.faults, -10.0, truth.rewards))


def _judged(knobs: Knobs, rng: np.random.Generator) -> Truth:
    draw = _Draw(knobs, rng)
    marks = np.clip(np.round(3 + rng.normal(0, 1, (knobs.prompts, 1)) + 0.8 * rng.normal(0, 1, draw.shape)), 1, 5)
    draw.right = (marks - 1) / 4
    truth = draw.with_faults(marks, knobs.rate, 0.0)
    return replace(truth, rewards=np.where(truth.faults, -10.0, truth.rewards))


def _rescaled(knobs: Knobs, rng: np.random.Generator) -> Truth:
    draw = _Draw(knobs, rng)
    truth = draw.with_faults(draw.score(), knobs.rate, 0.0)
    return replace(truth, rewards=np.where(truth.faults, 10 * truth.rewards, truth.rewards))


def _signed(knobs: Knobs, rng: np.random.Generator) -> Truth:
    draw = _Draw(knobs, rng)
    truth = draw.with_faults(draw.score(), knobs.rate, 0.0)
    sign = rng.choice([-1, 1], (knobs.prompts, 1))
    return replace(truth, rewards=truth.rewards + truth.faults * sign * knobs.size)


def _beyond(knobs: Knobs, rng: np.random.Generator) -> Truth:
    draw = _Draw(knobs, rng)
    truth = draw.with_faults(_bonus(draw), knobs.rate, 0.0)
    return replace(truth, rewards=truth.rewards + 1.65 * truth.faults)


SIMULATED: Mapping[str, tuple[str, World]] = {
    "clean": ("clean score", _clean(_Draw.score)),
    "spikes5": ("5 % spikes", _spikes(0.05)),
    "spikes10": ("10 % spikes", _spikes(0.1)),
    "spikes20": ("20 % spikes", _spikes(0.2)),
    "spikes30": ("30 % spikes", _spikes(0.3)),
    "spikes": ("spikes at --rate", _spikes(None)),
    "upwards": ("spikes upwards only", _upwards),
    "small": ("faults of three times the contrast", _small),
    "varied": ("faults of sizes over two decades", _varied),
    "by_prompt": ("faults whose rate depends on the prompt", _by_prompt),
    "signed": ("spikes with one sign per prompt", _signed),
    "rescaled": ("a judge that answers ten times the score", _rescaled),
    "judged": ("marks from 1 to 5, crashes at -10", _judged),
    "binary": ("0/1 rewards", _clean(lambda draw: draw.right)),
    "binary10": ("0/1 rewards, spikes", _spiked(lambda draw: draw.right)),
    "crash": ("0/1 rewards, crashes at -10", _crash),
    "bonus": ("0/1 and a small bonus", _clean(_bonus)),
    "beyond": ("0/1 and a small bonus, faults a little above right answers", _beyond),
    "rarebonus": ("rare right answers and a small bonus", _clean(_bonus, rare=True)),
    "rarebonus10": ("rare right answers, a small bonus, spikes", _spiked(_bonus, rare=True)),
    "heavy": ("honest heavy tails", _clean(lambda draw: draw.score(draw.rng.standard_t(1.5, draw.shape)))),
    "scales": (
        "prompts of different scales",
        _clean(lambda d: d.score() * np.exp(d.rng.normal(0, 1, (d.knobs.prompts, 1)))),
    ),
    "units": ("grades up to 1 and up to 100 in one batch", _clean(_units)),
    "verdicts10": ("0/1 and whole marks up to 10 in one batch", _beside_verdicts(10)),
    "verdicts100": ("0/1 and whole marks up to 100 in one batch", _beside_verdicts(100)),
    "tenfold": ("scores, on half of the prompts ten times as large", _clean(_tenfold)),
    "quarters": ("grades in quarters and a little noise", _quarters),
    "hardly": ("right answers at rates that hardly vary, and a small bonus", _hardly),
    "inside": ("a grader that crashes with 0, inside the range of the scores", _inside),
    "tail": ("a reward that is a cost with a long tail", _tail),
    "luck": ("right answers as rare on every prompt, and a small bonus", _luck),
}
"""Name -> what it is, and how it is drawn."""
ASIDE = ("spikes", "inside", "tail")
"""Worlds that are drawn only where they are asked for."""


def draw(name: str, seed: int, knobs: Knobs = Knobs()) -> Truth:  # noqa: B008 - frozen
    """One batch of a named world."""
    return SIMULATED[name][1](knobs, np.random.default_rng(seed))
