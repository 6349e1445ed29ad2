"""The math reward's rate: 3,072 completions (192 prompts x 16, the paper's rollout) beside plain in-process math-verify.

The completions are made up here: a few lines of working, then a boxed answer of MATH's kinds (fractions, roots, pairs,
polynomials, integers), right or wrong, repeated inside a group as sampled answers are. Plain math-verify gets a fresh part of
them each time, since it, too, remembers what it parsed.
"""

from __future__ import annotations

import random
import statistics
import sys
import time

from measuring import Row
from rovrl.output.progress import counted, progress_bar
from rovrl.tasks import math
from rovrl.tasks.answers import final_answer
from rovrl.tasks.verify import VerifierPool

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
    return completions, golds


def plainly(completions: list[str], golds: list[str]) -> tuple[list[float], float]:
    """math-verify in this process on the whole completions, with its own alarm: scores and seconds."""
    from math_verify import parse, verify

    start = time.perf_counter()
    scores = [float(verify(parse(f"${gold}$"), parse(text))) for text, gold in zip(completions, golds, strict=True)]
    return scores, time.perf_counter() - start


def guarded(completions: list[str], golds: list[str], workers: int) -> float:
    """Seconds of the reward as training calls it, with started workers and nothing remembered."""
    math._memory.clear()
    with VerifierPool(workers) as pool:
        pool.verify([(r"\boxed{0.5}", "1/2")] * workers)
        start = time.perf_counter()
        math.scores(completions, golds, pool=pool)
        return time.perf_counter() - start


def each(completions: list[str], golds: list[str], workers: int) -> float:
    """Seconds for every completion by algebra, none shared, none by its text: what more workers buy."""
    pairs = [(final_answer(text), gold) for text, gold in zip(completions, golds, strict=True)]
    with VerifierPool(workers) as pool:
        pool.verify(pairs[:workers])  # started
        start = time.perf_counter()
        pool.verify(pairs)
        return time.perf_counter() - start


def run(quick: bool) -> list[Row]:
    """Rates and ratios, measured in turns so that the machine's load falls on each; a progress bar over the first rollout."""
    completions, golds = workload(24 if quick else 192, 16)
    with progress_bar("completions scored") as progress, VerifierPool(2) as pool:
        scores = math.scores(completions, golds, pool=pool, on_done=counted(progress, len(completions)))
    size = 48 if quick else 384
    plain, ours, one, two, agree = [], [], [], [], []
    for turn in range(2 if quick else 5):
        part = slice(turn * size, (turn + 1) * size)
        expected, seconds = plainly(completions[part], golds[part])
        agree += [a == b for a, b in zip(expected, scores[part], strict=True)]
        plain.append(len(expected) / seconds)
        ours.append(len(completions) / guarded(completions, golds, 2))
        one.append(each(completions[part], golds[part], 1))
        two.append(each(completions[part], golds[part], 2))
    return [
        _row(f"reward, {len(completions)} completions, 2 workers, per second", ours),
        _row("plain in-process math-verify, per second", plain),
        _row("reward / plain math-verify, rate", [a / b for a, b in zip(ours, plain, strict=True)]),
        _row("two workers / one, every answer by algebra, rate", [a / b for a, b in zip(one, two, strict=True)]),
        Row("share of the same verdicts as plain math-verify", sum(agree) / len(agree), must=1.0, at_least=True),
    ]


def _row(name: str, values: list[float], note: str = "") -> Row:
    low, middle, high = statistics.quantiles(values, n=4)
    return Row(name, middle, low, high, note=note)


if __name__ == "__main__":
    for row in run(quick="--quick" in sys.argv[1:]):
        spread = f" [{row.low:.3g}, {row.high:.3g}]" if row.low is not None else ""
        print(f"{row.name:60} {row.value:.4g}{spread} {row.note}")
