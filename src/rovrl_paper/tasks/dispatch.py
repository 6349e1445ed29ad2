"""The second embedded task: choosing tools, graded call by call.

    prompt    "ak3 gr7 bm0 jt5 ck9>"               five requests: a verb, an object, a number
    response  "ak:D3;gr:A7;bm:J0;jt:B5;ck:D9;"     five calls: what is asked for, the tool, its argument; 30 characters

Which of ten tools serves a verb with an object is a table of 100 entries that follows no rule; the argument is the number. The
manual that a model learns from names a wrong tool for 24 of the 100, three times out of four. The score is the mean over the
calls: 1 for the right tool with the right argument, half for the right tool with another one. So nearly every response scores
something, and groups differ by fifths, where the first task is all or nothing. The misprints are planted, as there.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from rovrl_paper.tasks import characters, different

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

VERBS, OBJECTS, TOOLS = "abcdefghij", "klmnopqrst", "ABCDEFGHIJ"
CHARACTERS = f"0123456789{VERBS}{OBJECTS}{TOOLS} >:;"
REQUESTS = 5
RESPONSE_LENGTH = 6 * REQUESTS
MAX_RESPONSE_TOKENS = RESPONSE_LENGTH + 4

MISPRINTED_PAIRS = 24
MISPRINT_RATE = 0.75
"""How often the manual names the wrong tool of a misprinted entry."""

_CALL = re.compile(r"[a-j][k-t]:([A-J])(\d);")
_CALLS = re.compile(rf"({_CALL.pattern})*")


def prompt(requests: Sequence[tuple[str, str, int]]) -> str:
    """The requests as the model reads them."""
    return " ".join(f"{verb}{thing}{number}" for verb, thing, number in requests) + ">"


def score(problem: str, response: str) -> float:
    """Mean over the requests of 1 (tool and argument right), 0.5 (the tool alone) or 0; 0.0 if it is not a list of calls.

    Calls are matched to requests by their place; missing ones score 0, and one too many voids the answer. What a call says
    it was asked for is not looked at.
    """
    requests = problem.removesuffix(">").split(" ")
    if not _CALLS.fullmatch(response) or len(response) > 6 * len(requests):
        return 0.0
    marks = [
        (tool == table()[verb, thing]) * (0.5 + 0.5 * (argument == number))
        for (verb, thing, number), (tool, argument) in zip(requests, _CALL.findall(response), strict=False)
    ]
    return sum(marks) / len(requests)


@cache
def table(seed: int = 11) -> Mapping[tuple[str, str], str]:
    """{(verb, object): the right tool}; each tool serves ten of the 100 entries."""
    tools = list(TOOLS * 10)
    random.Random(seed).shuffle(tools)
    return dict(zip(((verb, thing) for verb in VERBS for thing in OBJECTS), tools, strict=True))


@cache
def misprints(pairs: int = MISPRINTED_PAIRS, seed: int = 7) -> Mapping[tuple[str, str], str]:
    """{(verb, object): the wrong tool that the manual names}."""
    rng = random.Random(seed)
    return {pair: rng.choice(TOOLS.replace(table()[pair], "")) for pair in rng.sample(sorted(table()), pairs)}


def worked(problem: str, rng: random.Random, rate: float = MISPRINT_RATE) -> str:
    """The calls for `problem` as the manual prints them."""
    wrong, calls = misprints(), []
    for verb, thing, number in problem.removesuffix(">").split(" "):
        misprinted = (verb, thing) in wrong and rng.random() < rate
        calls.append(f"{verb}{thing}:{(wrong if misprinted else table())[verb, thing]}{number};")
    return "".join(calls)


def problems(count: int, seed: int, avoid: Collection[str] = ()) -> list[str]:
    """`count` different problems, none of them in `avoid`."""
    return different(count, seed, avoid, _draw)


@cache
def held_out() -> tuple[str, ...]:
    """The 500 evaluation problems; neither the manual nor any training set holds one of them."""
    return tuple(problems(500, seed=999))


def textbook_page(rng: random.Random, rows: int) -> list[tuple[str, str]]:
    """`rows` pairs of problem and printed calls."""
    page: list[tuple[str, str]] = []
    reserved = frozenset(held_out())
    while len(page) < rows:
        problem = _draw(rng)
        if problem not in reserved:
            page.append((problem, worked(problem, rng)))
    return page


def training_problems(count: int, seed: int) -> list[str]:
    """`count` problems for reinforcement learning, disjoint from the held-out ones."""
    return problems(count, seed, avoid=held_out())


def _draw(rng: random.Random) -> str:
    return prompt([(rng.choice(VERBS), rng.choice(OBJECTS), rng.randrange(10)) for _ in range(REQUESTS)])


def encode(texts: Sequence[str]) -> list[list[int]]:
    """Token ids of texts, character by character."""
    return characters.encode(texts, CHARACTERS)


def tokenizer() -> PreTrainedTokenizerFast:
    """The tokenizer of the task's characters."""
    return characters.tokenizer(CHARACTERS)
