r"""Math: problems with a known answer, rewarded by math-verify on the last boxed answer (`sec:math_results`).

from rovrl.tasks.math import math_reward              # TRL: reward_funcs=[math_reward]; the dataset has `answer`
reward.custom_reward_function.path=pkg://rovrl.tasks.math     # verl: name=compute_score
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import nan
from typing import Any

from rovrl.tasks.answers import final_answer, plain_verdict
from rovrl.tasks.chat import as_text
from rovrl.tasks.verify import Verdict, VerifierPool, shared_pool

PROMPT = "{problem}\n\nPlease reason step by step, and put your final answer within \\boxed{{}}."
"""The instruction both methods are trained and evaluated with; the paper does not print its own."""

REMEMBERED = 50_000  # verdicts; then everything is forgotten, which costs less than to know what was used last
_memory: dict[tuple[object, ...], Verdict] = {}
"""what was judged: comparisons by (answer, gold), refusals at a limit with the limits; only ever changed by single operations,
so that no lock is needed that a fork could leave closed"""


def score(completion: object, answer: object) -> float:
    """1.0 if the completion's last boxed answer (or final expression) equals `answer` by math-verify, else 0.0.

    Never raises, hangs or grows because of a completion: algebra happens in worker processes with limits
    (`rovrl.tasks.verify`), and what does not finish within them is 0.0.
    """
    return scores([completion], [answer])[0]


def scores(
    completions: Sequence[object],
    answers: Sequence[object],
    *,
    pool: VerifierPool | None = None,
    on_done: Callable[[int], object] | None = None,
) -> list[float]:
    """`score` of each pair, over all workers; `on_done(n)` is called with how many more pairs are finished."""
    return [float(verdict.accepted) for verdict in verdicts(completions, answers, pool=pool, on_done=on_done)]


def verdicts(
    completions: Sequence[object],
    answers: Sequence[object],
    *,
    pool: VerifierPool | None = None,
    on_done: Callable[[int], object] | None = None,
) -> list[Verdict]:
    """The verdict on each pair, with the reason where it was refused without a comparison.

    Responses to one prompt repeat each other's answers: each different (answer, gold) pair is judged once, the same text
    and two plain integers need no algebra, and verdicts are remembered for later calls.
    """
    if len(completions) != len(answers):
        raise ValueError(
            f"{len(completions)} completions but {len(answers)} answers: one answer per completion is needed"
        )
    pairs = [(final_answer(as_text(text)), _gold(answer)) for text, answer in zip(completions, answers, strict=True)]
    places: dict[tuple[str, str], int] = {}
    for pair in pairs:
        places[pair] = places.get(pair, 0) + 1
    pool = pool or shared_pool()
    known = {pair: verdict for pair in places if (verdict := _without_algebra(pair, pool)) is not None}
    report = on_done or (lambda count: None)
    report(sum(places[pair] for pair in known))
    unknown = [pair for pair in places if pair not in known]
    if unknown:
        finished = iter(unknown)  # which one finished does not matter to a progress bar, only how many
        judged = pool.verify(unknown, on_done=lambda: report(places[next(finished)]))
        known.update(zip(unknown, judged, strict=True))
        _remember(unknown, judged, pool)
    return [known[pair] for pair in pairs]


def math_reward(
    prompts: Sequence[object] = (), completions: Sequence[object] = (), answer: Sequence[object] = (), **columns: Any
) -> list[float | None]:
    """The rewards of a batch, as TRL calls it; the column `answer` holds the gold answers. None: the verifier failed,
    or there is no gold answer to compare with."""
    found = verdicts(completions, answer)
    return [
        float(verdict.accepted) if verdict.judged and gold is not None else None
        for verdict, gold in zip(found, answer, strict=True)
    ]


def compute_score(
    data_source: object, solution_str: str, ground_truth: object, extra_info: object = None, **kwargs: Any
) -> float:
    """The reward of one response, as verl calls it; NaN if the verifier failed."""
    reward = math_reward(completions=[solution_str], answer=[ground_truth])[0]
    return nan if reward is None else reward


def prompt(problem: str) -> list[dict[str, str]]:
    """The conversation that asks `problem`."""
    return [{"role": "user", "content": PROMPT.format(problem=problem)}]


def _gold(answer: object) -> str:
    return "" if answer is None else str(answer).strip()


def _without_algebra(pair: tuple[str, str], pool: VerifierPool) -> Verdict | None:
    plain = plain_verdict(*pair)
    return _recall(pair, pool) if plain is None else Verdict(plain)


def _recall(pair: tuple[str, str], pool: VerifierPool) -> Verdict | None:
    return _memory.get(pair) or _memory.get((*pair, pool.time_limit, pool.memory))


def _remember(pairs: Sequence[tuple[str, str]], found: Sequence[Verdict], pool: VerifierPool) -> None:
    """A hostile answer costs its time limit once, not every time; what the verifier failed to judge is not remembered."""
    if len(_memory) > REMEMBERED:
        _memory.clear()
    for pair, verdict in zip(pairs, found, strict=True):
        if verdict.judged:
            _memory[(*pair, pool.time_limit, pool.memory) if verdict.reason else pair] = verdict
