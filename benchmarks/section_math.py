"""The math reward's rate: 3,072 completions (192 prompts x 16, the paper's rollout) beside plain in-process math-verify.

The completions are made up here: a few lines of working, then a boxed answer of MATH's kinds (fractions, roots, pairs,
polynomials, integers), right or wrong, repeated inside a group as sampled answers are, and one hostile power tower.
"""

from __future__ import annotations

import random
import resource
import statistics
import sys
import time
from typing import Any

from rovrl.tasks import math
from rovrl.tasks.answers import final_answer
from rovrl.tasks.verifier_pool import VerifierPool

WORKING = "We set $x_{{{n}}} = {a}$ and compute $\\frac{{{a}}}{{{b}}} + {n}$, which simplifies after a step.\n"


def workload(prompts: int, group: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """Completions and gold answers, group after group."""
    draw = random.Random(seed)
    kinds = (
        lambda a, b: (f"\\frac{{{a}}}{{{b}}}", f"{a}/{b}"),
        lambda a, b: (f"{a}\\sqrt{{{b}}}", f"\\sqrt{{{b}}} \\cdot {a}"),
        lambda a, b: (f"({a}, {b})", f"\\left( {a}, {b} \\right)"),
        lambda a, b: (f"{a}x^2 + {b}x", f"x({a}x + {b})"),
        lambda a, b: (str(a * b), str(a * b)),
    )
    completions, golds = [], []
    for prompt in range(prompts):
        a, b, kind = draw.randint(2, 99), draw.randint(101, 199), kinds[prompt % len(kinds)]
        gold = kind(a, b)[0]
        answers = [kind(a, b)[1], kind(a + 1, b)[1], kind(a, b + 1)[0], kind(a, b)[0]]  # right, wrong, wrong, right
        for _ in range(group):
            working = "".join(WORKING.format(n=n, a=draw.randint(1, 99), b=draw.randint(2, 99)) for n in range(8))
            completions.append(f"{working}Therefore the answer is $\\boxed{{{draw.choice(answers)}}}$.")
            golds.append(gold)
    completions[-1] = r"So it is $\boxed{9^{9^{9^{9}}}}$."
    return completions, golds


def plainly(completions: list[str], golds: list[str]) -> tuple[list[float], float]:
    """math-verify in this process on the whole completions, with its own alarm: scores and seconds."""
    from math_verify import parse, verify

    start = time.perf_counter()
    scores = [float(verify(parse(f"${gold}$"), parse(text))) for text, gold in zip(completions, golds, strict=True)]
    return scores, time.perf_counter() - start


def guarded(completions: list[str], golds: list[str], workers: int) -> tuple[list[float], float]:
    """The reward as training calls it, with nothing remembered: scores and seconds, the start of the workers included."""
    math._verdicts.clear()
    with VerifierPool(workers) as pool:
        start = time.perf_counter()
        scores = math.scores(completions, golds, pool=pool)
        return scores, time.perf_counter() - start


def each(completions: list[str], golds: list[str], workers: int) -> float:
    """Seconds for every completion by algebra, none shared, none by its text: what more workers buy."""
    pairs = [(final_answer(text), gold) for text, gold in zip(completions, golds, strict=True)]
    with VerifierPool(workers) as pool:
        pool.verify(pairs[:workers])  # started
        start = time.perf_counter()
        pool.verify(pairs)
        return time.perf_counter() - start


def measure(quick: bool) -> dict[str, Any]:
    """All numbers, each pair measured in turns so that the machine's load falls on both."""
    completions, golds = workload(*((24, 16) if quick else (192, 16)))
    few = slice(0, 96 if quick else 384)
    plain, ours, one, two = [], [], [], []
    for _ in range(1 if quick else 3):
        expected, seconds = plainly(completions[few], golds[few])
        plain.append(len(expected) / seconds)
        scores, seconds = guarded(completions, golds, 2)
        ours.append(len(scores) / seconds)
        one.append(each(completions[few], golds[few], 1))
        two.append(each(completions[few], golds[few], 2))
    return {
        "completions": len(completions),
        "plain_per_second": statistics.median(plain),
        "ours_per_second": statistics.median(ours),
        "ratio": statistics.median(o / p for o, p in zip(ours, plain, strict=True)),
        "ratio_range": [
            min(o / p for o, p in zip(ours, plain, strict=True)),
            max(o / p for o, p in zip(ours, plain, strict=True)),
        ],
        "two_workers_over_one": statistics.median(a / b for a, b in zip(one, two, strict=True)),
        "same_verdicts": f"{sum(a == b for a, b in zip(expected, scores[few], strict=True))} of {len(expected)}",
        "right": sum(scores) / len(scores),
        "megabytes_of_the_largest_worker": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
    }


def main(quick: bool) -> None:
    """Prints the numbers with a progress bar for the rollout."""
    from rovrl.evaluate.show import progress

    completions, golds = workload(*((24, 16) if quick else (192, 16)))
    with progress("completions scored", len(completions)) as advance, VerifierPool(2) as pool:
        math.scores(completions, golds, pool=pool, on_done=advance)
    for name, value in measure(quick).items():
        print(f"{name:32} {value if not isinstance(value, float) else f'{value:.3g}'}")


if __name__ == "__main__":
    main(quick="--quick" in sys.argv[1:])
