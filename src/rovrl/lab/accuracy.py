"""Accuracy on the held-out problems, and how sure one can be of it and of differences between methods."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from rovrl.lab.models.worlds import World


class Estimate(NamedTuple):
    """A number and its 95 % interval."""

    value: float
    low: float
    high: float


@torch.no_grad()
def greedy_responses(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, problems: Sequence[str], max_tokens: int
) -> list[str]:
    """The model's greedy response to each problem."""
    training = model.training
    model.eval()
    encoded = tokenizer(list(problems), return_tensors="pt", padding=True, padding_side="left")
    out: Any = model.generate(  # pyright: ignore[reportCallIssue]
        input_ids=encoded["input_ids"],
        attention_mask=encoded["attention_mask"],
        max_new_tokens=max_tokens,
        do_sample=False,
        pad_token_id=tokenizer.pad_token_id,
    )
    model.train(training)
    return tokenizer.batch_decode(out[:, encoded["input_ids"].shape[1] :], skip_special_tokens=True)


def verdicts(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, world: World) -> np.ndarray:
    """[problem] whether the greedy response to each held-out problem is right, as bool."""
    problems = world.held_out()
    responses = greedy_responses(model, tokenizer, problems, world.max_response_tokens)
    return np.array([world.score(p, r) > 0 for p, r in zip(problems, responses, strict=True)])


def proportion(right: np.ndarray) -> Estimate:
    """The share of right answers with Wilson's 95 % interval: the error of having asked these problems only."""
    n, p, z = right.size, float(right.mean()), 1.959964
    center = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return Estimate(p, center - half, center + half)


def bootstrap(values: np.ndarray, replicates: int = 10_000, seed: int = 20250904) -> Estimate:
    """The mean of [seed, problem] `values` with a 95 % percentile interval over both axes.

    Seeds and problems are resampled with replacement, each on its own (crossed), so the interval holds the spread between
    runs and the choice of problems. Pass paired differences for a paired interval. One seed: only the problems vary.
    """
    by_seed, by_problem = _resampling(*values.shape, replicates, seed)
    means = np.einsum("rs,rs->r", by_seed, by_problem @ values.T)
    low, high = np.quantile(means, [0.025, 0.975])
    return Estimate(float(values.mean()), float(low), float(high))


@lru_cache(maxsize=4)
def _resampling(seeds: int, problems: int, replicates: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The weights of seeds and of problems in each replicate: the same for every table cell of one shape, and slow to draw."""
    rng = np.random.default_rng(seed)
    by_seed = rng.multinomial(seeds, np.full(seeds, 1 / seeds), replicates) / seeds
    by_problem = rng.multinomial(problems, np.full(problems, 1 / problems), replicates) / problems
    return by_seed, by_problem


def paired_difference(ours: np.ndarray, theirs: np.ndarray) -> Estimate:
    """Accuracy of `ours` minus `theirs`, both [seed, problem] of the same seeds and problems, by paired bootstrap."""
    if ours.shape != theirs.shape:
        raise ValueError(f"ours and theirs must be paired; their shapes are {ours.shape} and {theirs.shape}")
    return bootstrap(ours.astype(float) - theirs.astype(float))


def pack(right: np.ndarray) -> str:
    """Bools as a short hexadecimal text, for one line of JSON; `unpack` is the inverse."""
    return np.packbits(right).tobytes().hex()


def unpack(text: str, count: int) -> np.ndarray:
    """The `count` bools that `pack` wrote."""
    return np.unpackbits(np.frombuffer(bytes.fromhex(text), np.uint8))[:count].astype(bool)
