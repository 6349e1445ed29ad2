"""The embedded job's two rewards, as functions that TRL calls: verdict -> reward -> planted corruption -> clamp.

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

from rovrl.tasks import arithmetic
from rovrl.train.contamination import Contamination, contaminate

PROMPT_OFFSET, CONTRAST, NOISE = 1.15, 0.33, 0.05
GLOBAL_SD = 1.165
"""The paper's published facts about its learned reward: global sd 1.165, median sd within a group 0.165."""


@dataclass(frozen=True)
class Kind:
    """A reward: its formula, the unit of planted sizes, and the range to which a careful user would clamp it."""

    reward: Callable[[np.ndarray, Sequence[str], int, np.random.Generator], np.ndarray]
    unit: float
    clamp: tuple[float, float]
    clamp_is: str


def _rule(verdicts: np.ndarray, prompts: Sequence[str], seed: int, rng: np.random.Generator) -> np.ndarray:
    return verdicts


def _score(verdicts: np.ndarray, prompts: Sequence[str], seed: int, rng: np.random.Generator) -> np.ndarray:
    """Like a learned reward: an offset per prompt, a small contrast between right and wrong, a little noise."""
    offsets = {p: np.random.default_rng([seed, zlib.crc32(p.encode())]).normal(0, PROMPT_OFFSET) for p in set(prompts)}
    offset = np.array([offsets[p] for p in prompts])
    return offset + CONTRAST * verdicts + rng.normal(0, NOISE, len(prompts))


KINDS: Mapping[str, Kind] = {
    "rule": Kind(_rule, unit=1.0, clamp=(0.0, 1.0), clamp_is="the known range"),
    "score": Kind(_score, unit=GLOBAL_SD, clamp=(-3.0, 3.0), clamp_is="a guessed range"),
}


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
        updates: int = 1,
        group: int = 16,
        score: Callable[[str, str], float] = arithmetic.score,
    ) -> None:
        self.score = score
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
        return torch.from_numpy(damaged).to(rewards).unsqueeze(1), both

    def _draws(self, step: int, stream: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, step, stream])

    def _groups(self, count: int) -> np.ndarray:
        return np.arange(count) // self.group
