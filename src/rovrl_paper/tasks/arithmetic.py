"""The embedded task: column addition on a scratchpad, with a textbook that has misprints.

    prompt    "3574+4861="
    response  "4+1+0=05;7+6+0=13;5+8+1=14;3+4+1=08;#08435"      42 characters and the end of text

A model that learnt from the textbook follows the procedure and knows the right sum of every pair of digits, but prefers
the misprinted one for 24 of the 100 pairs: a middling greedy accuracy, with much to gain from a reward that looks at the
final number alone. The misprints are planted, so that reinforcement learning has something to find within a minute.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from rovrl_paper.tasks import characters, different

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

DIGITS = 4
CHARACTERS = "0123456789+=;#"
RESPONSE_LENGTH = 9 * DIGITS + DIGITS + 2
"""Characters of a whole response: nine per column, the mark, and one digit more than the summands have."""
MAX_RESPONSE_TOKENS = RESPONSE_LENGTH + 4

MISPRINTED_PAIRS = 24
MISPRINT_RATE = 0.75
"""How often the textbook prints the wrong sum of a misprinted pair."""


def prompt(a: int, b: int) -> str:
    """The problem a + b as the model reads it."""
    return f"{a:0{DIGITS}d}+{b:0{DIGITS}d}="


def answer(problem: str) -> str:
    """The last field of a right response to `problem`, its mark included: "#08435"."""
    a, b = problem.removesuffix("=").split("+")
    return f"#{int(a) + int(b):0{DIGITS + 1}d}"


def score(problem: str, response: str) -> float:
    """1.0 if the response ends with the right sum, else 0.0; the scratchpad is not looked at."""
    return float(response.endswith(answer(problem)))


@cache
def misprints(pairs: int = MISPRINTED_PAIRS, seed: int = 7) -> Mapping[tuple[int, int], int]:
    """{(digit, digit): the wrong sum that the textbook prints}, each one off by one."""
    rng = random.Random(seed)
    chosen = rng.sample([(x, y) for x in range(10) for y in range(10)], pairs)
    return {(x, y): x + y + rng.choice([-1, 1] if x + y else [1]) for x, y in chosen}


def worked(a: int, b: int, rng: random.Random, rate: float = MISPRINT_RATE) -> str:
    """The scratchpad of a + b as the textbook prints it; carries and answer follow from what is printed."""
    wrong, columns, digits, carry = misprints(), [], "", 0
    for place in range(DIGITS):
        x, y = a // 10**place % 10, b // 10**place % 10
        printed = wrong[x, y] if (x, y) in wrong and rng.random() < rate else x + y
        total = printed + carry
        columns.append(f"{x}+{y}+{carry}={total:02d};")
        carry, digits = total // 10, f"{total % 10}{digits}"
    return f"{''.join(columns)}#{carry}{digits}"


def problems(count: int, seed: int, avoid: Collection[str] = ()) -> list[str]:
    """`count` different problems, none of them in `avoid`."""
    return different(count, seed, avoid, lambda rng: prompt(rng.randrange(10**DIGITS), rng.randrange(10**DIGITS)))


@cache
def held_out() -> tuple[str, ...]:
    """The 500 evaluation problems; neither the textbook nor any training set holds one of them."""
    return tuple(problems(500, seed=999))


def textbook_page(rng: random.Random, rows: int) -> list[tuple[str, str]]:
    """`rows` pairs of problem and printed solution."""
    page: list[tuple[str, str]] = []
    reserved = frozenset(held_out())
    while len(page) < rows:
        a, b = rng.randrange(10**DIGITS), rng.randrange(10**DIGITS)
        if prompt(a, b) not in reserved:
            page.append((prompt(a, b), worked(a, b, rng)))
    return page


def training_problems(count: int, seed: int) -> list[str]:
    """`count` problems for reinforcement learning, disjoint from the held-out ones."""
    return problems(count, seed, avoid=held_out())


def encode(texts: Sequence[str]) -> list[list[int]]:
    """Token ids of texts, character by character."""
    return characters.encode(texts, CHARACTERS)


def tokenizer() -> PreTrainedTokenizerFast:
    """The tokenizer of the task's characters."""
    return characters.tokenizer(CHARACTERS)
