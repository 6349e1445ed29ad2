"""The embedded job's rewards, as functions that TRL calls: verdict -> reward -> planted corruption -> clamp.

A method that is told what was corrupted gets NaN in its place, which every channel of ours leaves out. A job may have three
functions in place of one (a verifier, a judge, a length penalty): corruption then strikes the judge alone.

Everything random about a step is drawn from a generator seeded by (seed, step), never carried over from the step
before: every method meets the same noise and the same spikes, and a resumed run meets them again.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from rovrl.train.contamination import Contamination, contaminate
from rovrl_paper.tasks import arithmetic

PROMPT_OFFSET, CONTRAST, NOISE = 1.15, 0.33, 0.05
GLOBAL_SD = 1.165
"""The paper's published facts about its learned reward: global sd 1.165, median sd within a group 0.165."""
BONUS, RECOGNISED = 0.1, 0.25
"""`bonus`: the largest one, and the share of prompts whose right answers the grader recognises."""
MIXED_SCALE, MIXED_NOISE, MIXED_SD = 100.0, 3.0, 43.2
"""`units`: the second data set's full mark and noise; the global standard deviation if every other response is right."""


@dataclass(frozen=True)
class Kind:
    """A reward: its formula, the unit of planted sizes, and the range to which a careful user would clamp it."""

    reward: Callable[[np.ndarray, Sequence[str], int, np.random.Generator], np.ndarray]
    formula: str
    unit: float
    clamp: tuple[float, float]
    clamp_is: str


def _rule(verdicts: np.ndarray, prompts: Sequence[str], seed: int, rng: np.random.Generator) -> np.ndarray:
    return verdicts


def _score(verdicts: np.ndarray, prompts: Sequence[str], seed: int, rng: np.random.Generator) -> np.ndarray:
    """Like a learned reward: an offset per prompt, a small contrast between right and wrong, a little noise."""
    offset = _per_prompt(prompts, seed, lambda draws: draws.normal(0, PROMPT_OFFSET))
    return offset + CONTRAST * verdicts + rng.normal(0, NOISE, len(prompts))


def _bonus(verdicts: np.ndarray, prompts: Sequence[str], seed: int, rng: np.random.Generator) -> np.ndarray:
    """Rare right answers (those to most prompts go unrecognised), plus a small bonus that has nothing to do with them."""
    recognised = _per_prompt(prompts, seed, lambda draws: draws.random()) < RECOGNISED
    return verdicts * recognised + BONUS * rng.random(len(prompts))


def _units(verdicts: np.ndarray, prompts: Sequence[str], seed: int, rng: np.random.Generator) -> np.ndarray:
    """Two data sets in one batch: one graded 0 or 1, the other 0 to 100 with a little noise."""
    large = _per_prompt(prompts, seed, lambda draws: draws.random()) < 0.5
    return np.where(large, MIXED_SCALE * verdicts + rng.normal(0, MIXED_NOISE, len(prompts)), verdicts)


def _per_prompt(prompts: Sequence[str], seed: int, draw: Callable[[np.random.Generator], float]) -> np.ndarray:
    """A draw for each prompt that depends on its text and the seed alone: the same whenever the prompt comes again."""
    found = {p: draw(np.random.default_rng([seed, zlib.crc32(p.encode())])) for p in set(prompts)}
    return np.array([found[p] for p in prompts])


KINDS: Mapping[str, Kind] = {
    "rule": Kind(_rule, "the task's own score, 0 to 1", unit=1.0, clamp=(0.0, 1.0), clamp_is="the known range"),
    "score": Kind(
        _score, "like a learned one: prompt offset + 0.33 x right + noise",
        unit=GLOBAL_SD, clamp=(-3.0, 3.0), clamp_is="a guessed range",
    ),
    "several": Kind(
        _score, "three functions: 1 if right, a judge like `score`, which alone is corrupted, and -0.01 per character",
        unit=GLOBAL_SD, clamp=(-3.0, 3.0), clamp_is="a guessed range for the judge",
    ),
    "bonus": Kind(
        _bonus, "1 if right on the quarter of prompts whose answers are recognised, + a random bonus below 0.1",
        unit=1.0, clamp=(0.0, 1.0 + BONUS), clamp_is="the known range",
    ),
    "units": Kind(
        _units, "two data sets: half of the prompts graded 0 or 1, half 0 to 100 with noise 3",
        unit=MIXED_SD, clamp=(0.0, MIXED_SCALE), clamp_is="the known range",
    ),
}  # fmt: skip


class EmbeddedReward:
    """The reward of the embedded job: called by TRL for the clean rewards, and by our trainer to corrupt them.

    `updates` optimizer steps share one generation.
    """

    def __init__(
        self,
        kind: str,
        seed: int,
        plan: Sequence[Contamination] = (),
        clamp: tuple[float, float] | None = None,
        told: bool = False,
        updates: int = 1,
        group: int = 16,
        score: Callable[[str, str], float] = arithmetic.score,
    ) -> None:
        self.score, self.told = score, told
        self.kind, self.seed, self.clamp, self.updates, self.group = KINDS[kind], seed, clamp, updates, group
        self.early = [c for c in plan if c.before_reward]
        self.late = [c for c in plan if not c.before_reward]
        self.early_labels: list[str] = []
        self.__name__ = kind

    def __call__(
        self, prompts: Sequence[str], completions: Sequence[str], *, trainer_state: Any, **hooks: Any
    ) -> list[float]:
        """One reward per completion, before spikes and the like; only the verdicts may have been flipped."""
        step = trainer_state.global_step // self.updates + 1
        verdicts = np.array([self.score(p, c) for p, c in zip(prompts, completions, strict=True)])
        if hooks.get("log_metric"):
            hooks["log_metric"]("true_accuracy", float(verdicts.mean()))
        return self.rewards(verdicts, prompts, step).tolist()

    def rewards(self, verdicts: np.ndarray, prompts: Sequence[str], step: int) -> np.ndarray:
        """The rewards of one generation of responses, from whether each one was right."""
        judged, self.early_labels = contaminate(verdicts, self._groups(len(prompts)), self.early, self._draws(step, 2))
        return self.kind.reward(judged, prompts, self.seed, self._draws(step, 0))

    def corrupt(self, rewards: torch.Tensor, step: int) -> tuple[torch.Tensor, list[str]]:
        """[response, 1] rewards as trained on, and what was done to each: the trainer's `reward_transform`."""
        groups = self._groups(len(rewards))
        damaged, labels = contaminate(
            rewards[:, 0].double().numpy(), groups, self.late, self._draws(step, 1), unit=self.kind.unit
        )
        if self.clamp:
            damaged = np.clip(damaged, *self.clamp)
        both = [",".join(filter(None, pair)) for pair in zip(self.early_labels, labels, strict=True)]
        if self.told:
            damaged = np.where(np.array(both) != "", np.nan, damaged)
        return torch.from_numpy(damaged).to(rewards).unsqueeze(1), both

    def _draws(self, step: int, stream: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, step, stream])

    def _groups(self, count: int) -> np.ndarray:
        return np.arange(count) // self.group


SEVERAL = "several"
"""The reward of a job whose reward is three functions."""
PENALTY = 0.01
"""Per character."""
JUDGE = 1

RewardFunction = Callable[..., list[float]]
Corruption = Callable[[torch.Tensor, int], tuple[torch.Tensor, list[str]]]


def reward_functions(kind: str, reward: EmbeddedReward) -> tuple[list[RewardFunction], Corruption]:
    """(what TRL calls, what corrupts a generation of it): the reward alone, or as one function of three."""
    if kind != SEVERAL:
        return [reward], reward.corrupt

    def right(prompts: Sequence[str], completions: Sequence[str], **_: Any) -> list[float]:
        return [float(reward.score(p, c)) for p, c in zip(prompts, completions, strict=True)]

    def brief(completions: Sequence[str], **_: Any) -> list[float]:
        return [-PENALTY * len(text) for text in completions]

    def corrupt(rewards: torch.Tensor, step: int) -> tuple[torch.Tensor, list[str]]:
        judged, labels = reward.corrupt(rewards[:, JUDGE : JUDGE + 1], step)
        return torch.cat([rewards[:, :JUDGE], judged, rewards[:, JUDGE + 1 :]], 1), labels

    return [right, reward, brief], corrupt
