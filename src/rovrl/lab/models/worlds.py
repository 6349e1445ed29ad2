"""The two worlds of the embedded job: a tiny model on scratchpad addition, a real 135M one on few-shot addition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rovrl.lab.models.smollm2 import smollm2
from rovrl.lab.models.warmup import WarmUp, warmed_up
from rovrl.output.progress import Progress
from rovrl.tasks import arithmetic, fewshot


@dataclass(frozen=True)
class World:
    """A model and its task."""

    facts: tuple[str, ...]
    """What the user is told, planted things included."""
    model: Callable[[WarmUp, Progress], Path]
    """The directory of the model to start from."""
    training_problems: Callable[[int, int], list[str]]
    held_out: Callable[[], Sequence[str]]
    score: Callable[[str, str], float]
    """(problem, response) -> 1.0 or 0.0."""
    max_response_tokens: int
    problems: int
    """How many problems a run trains on."""
    sizes: Mapping[str, Any] = field(default_factory=dict)
    """What of the job's defaults is different in this world."""


WORLDS: Mapping[str, World] = {
    "tiny": World(
        facts=(
            "Task: four-digit addition on a scratchpad, by a 0.24M-parameter model with Qwen3's architecture.",
            f"Planted: the model learnt from a textbook that misprints {arithmetic.MISPRINTED_PAIRS} of the 100 digit sums "
            f"in {arithmetic.MISPRINT_RATE:.0%} of the cases; reinforcement learning has to find the right ones.",
        ),
        model=lambda recipe, progress: warmed_up(recipe, progress=progress),
        training_problems=arithmetic.training_problems,
        held_out=arithmetic.held_out,
        score=arithmetic.score,
        max_response_tokens=arithmetic.MAX_RESPONSE_TOKENS,
        problems=4000,
    ),
    "smollm2": World(
        facts=("Task: few-shot addition of a number below 20 and a one-digit number, by SmolLM2-135M-Instruct.",),
        model=lambda recipe, progress: smollm2(),
        training_problems=fewshot.training_problems,
        held_out=fewshot.held_out,
        score=fewshot.score,
        max_response_tokens=fewshot.MAX_RESPONSE_TOKENS,
        problems=100,
        sizes={
            "generations": 7,
            "prompts": 4,
            "group": 9,
            "updates": 3,
            "learning_rate": 1e-6,
            "evaluate_every": 7,
            "checkpoint_every": 7,
        },
    ),
}
