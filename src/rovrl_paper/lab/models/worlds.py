"""The worlds of the embedded job: a tiny model on addition or on choosing tools, a real one on addition or on sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rovrl.output.progress import Progress
from rovrl_paper.lab.models.smollm2 import smollm2
from rovrl_paper.lab.models.warmup import WarmUp, warmed_up
from rovrl_paper.tasks import arithmetic, dispatch, fewshot, keywords


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
    """(problem, response) -> 0.0 to 1.0; 1.0 is right."""
    max_response_tokens: int
    problems: int
    """How many problems a run trains on."""
    graded: bool = False
    """Whether accuracy is the mean score; else it is the share of responses with full score."""
    sizes: Mapping[str, Any] = field(default_factory=dict)
    """Which of the job's defaults differ in this world."""


def _warmed_up(task: Any, *facts: str) -> World:
    """The tiny model, warmed up on the textbook of `task` (a module such as `arithmetic`)."""
    return World(
        facts=facts,
        model=lambda recipe, progress: warmed_up(recipe, progress=progress, book=task),
        training_problems=task.training_problems,
        held_out=task.held_out,
        score=task.score,
        max_response_tokens=task.MAX_RESPONSE_TOKENS,
        problems=4000,
    )


WORLDS: Mapping[str, World] = {
    "tiny": _warmed_up(
        arithmetic,
        "Task: four-digit addition on a scratchpad, by a 0.24M-parameter model with Qwen3's architecture.",
        f"Planted: the model learnt from a textbook that misprints {arithmetic.MISPRINTED_PAIRS} of the 100 digit sums "
        f"in {arithmetic.MISPRINT_RATE:.0%} of the cases; reinforcement learning has to find the right ones.",
    ),
    "tools": _warmed_up(
        dispatch,
        "Task: tools for five requests, graded call by call, by a 0.24M-parameter model with Qwen3's architecture.",
        f"Planted: the model learnt from a manual with a wrong tool for {dispatch.MISPRINTED_PAIRS} of the 100 entries "
        f"in {dispatch.MISPRINT_RATE:.0%} of the cases; reinforcement learning has to find the right ones.",
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
    "smollm2-words": World(
        facts=(
            "Task: a sentence with four given words, by SmolLM2-135M-Instruct. Score and accuracy: the share of them used.",
        ),
        model=lambda recipe, progress: smollm2(),
        training_problems=keywords.training_problems,
        held_out=keywords.held_out,
        score=keywords.score,
        max_response_tokens=keywords.MAX_RESPONSE_TOKENS,
        problems=1000,
        graded=True,
        sizes={
            "generations": 8,
            "prompts": 4,
            "updates": 8,
            "learning_rate": 1e-5,
            "evaluate_every": 4,
            "checkpoint_every": 4,
        },
    ),
}
