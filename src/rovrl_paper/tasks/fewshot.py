"""Few-shot addition for a real language model: worked examples, then a sum to complete.

    prompt    "3+4=7\\n12+5=17\\n8+6=14\\n16+7="
    response  "23\\n"

A number below 20 plus a one-digit one: a 135M model is right about half the time, and most groups hold right and wrong answers.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection
from functools import cache

EXAMPLES = "3+4=7\n12+5=17\n8+6=14\n"
MAX_RESPONSE_TOKENS = 4
_FIRST_NUMBER = re.compile(r"\s*(\d+)")


def prompt(a: int, b: int) -> str:
    """The worked examples and the sum to complete."""
    return f"{EXAMPLES}{a}+{b}="


def score(problem: str, response: str) -> float:
    """1.0 if the response begins with the right sum (and no further digit), else 0.0."""
    a, b = problem.rsplit("\n", 1)[-1].removesuffix("=").split("+")
    found = _FIRST_NUMBER.match(response)
    return float(found is not None and int(found[1]) == int(a) + int(b))


def problems(count: int, seed: int, avoid: Collection[str] = ()) -> list[str]:
    """`count` different problems, none of them in `avoid`."""
    every = [prompt(a, b) for a in range(1, 20) for b in range(2, 10)]
    allowed = [text for text in every if text not in set(avoid)]
    return random.Random(seed).sample(allowed, count)


@cache
def held_out() -> tuple[str, ...]:
    """The 50 evaluation problems; no training set holds one of them."""
    return tuple(problems(50, seed=999))


def training_problems(count: int, seed: int) -> list[str]:
    """`count` problems for reinforcement learning, disjoint from the held-out ones."""
    return problems(count, seed, avoid=held_out())
