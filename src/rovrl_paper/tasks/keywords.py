"""A graded task for a real language model: a sentence with four given words.

    prompt    "A sentence with stone, boat, song, king:"
    response  " The king of the boat sang a song.\\n..."      three of four: 0.75

The score is the share of the given words in the first line of the response. A 135M model uses about one of the four, and
hardly any group of responses is all alike.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache

from rovrl_paper.tasks import different

BEGINNING = "A sentence with "
_WORDS = (
    "river bread king boat tree horse bridge lamp song garden winter soldier mountain bird letter stone window child market "
    "fire ship road moon apple chair doctor forest island kitchen night ocean paper queen rain school table village water"
)
WORDS = tuple(_WORDS.split())
GIVEN = 4
MAX_RESPONSE_TOKENS = 12


def prompt(words: Collection[str]) -> str:
    """What the model reads: the words to use."""
    return f"{BEGINNING}{', '.join(words)}:"


def score(problem: str, response: str) -> float:
    """The share of the given words, or their plurals in -s, in the first line of the response."""
    wanted = problem.removeprefix(BEGINNING).removesuffix(":").split(", ")
    used = set(re.findall(r"[a-z]+", response.strip().split("\n")[0].lower()))
    return sum(word in used or f"{word}s" in used for word in wanted) / len(wanted)


def problems(count: int, seed: int, avoid: Collection[str] = ()) -> list[str]:
    """`count` different problems, none of them in `avoid`."""
    return different(count, seed, avoid, lambda rng: prompt(rng.sample(WORDS, GIVEN)))


@cache
def held_out() -> tuple[str, ...]:
    """The 100 evaluation problems; no training set holds one of them."""
    return tuple(problems(100, seed=999))


def training_problems(count: int, seed: int) -> list[str]:
    """`count` problems for reinforcement learning, disjoint from the held-out ones."""
    return problems(count, seed, avoid=held_out())
