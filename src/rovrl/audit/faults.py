"""The fault matrix: simulated runs with one planted fault each; which are found, and how often a clean run is accused.

python -m rovrl.audit.faults --seeds 20            # or: rovrl audit --fault-matrix; writes the table of docs/audit-faults.md
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.codes import thresholds
from rovrl.audit.findings import Evidence, findings
from rovrl.audit.ratios import RatioTable, weights
from rovrl.audit.rollouts import Rollouts
from rovrl.audit.rows import Notes
from rovrl.audit.statistics import group_table
from rovrl.audit.tables import pa
from rovrl.config import RatioChannel, RewardChannel

STEPS, PROMPTS, GROUP, TOKENS = 24, 8, 16, 64
Array = NDArray[np.float64]
Generator = np.random.Generator


@dataclass
class Run:
    """A simulated run: rewards [step, prompt, response], and token log-ratios [response, token] of its last step."""

    reward: Array
    ratios: Array
    shuffled: bool = False
    repeat: NDArray[np.int64] | None = None
    """Group numbers in the order in which they are logged; None: each once."""


def score_run(generator: Generator) -> Run:
    """Rewards like a learned one: an offset per prompt, a small contrast, noise (the paper's published reward facts)."""
    right = generator.random((STEPS, PROMPTS, GROUP)) < generator.beta(1.5, 1.5, (STEPS, PROMPTS, 1))
    offset = generator.normal(0, 1.15, (STEPS, PROMPTS, 1))
    return Run(offset + 0.33 * right + generator.normal(0, 0.05, right.shape), _ratios(generator))


def rule_run(generator: Generator) -> Run:
    """0/1 rewards of a verifier; prompts differ in difficulty, and the policy gets better over the steps."""
    skill = np.linspace(-0.5, 1.5, STEPS)[:, None, None]
    chance = 1 / (1 + np.exp(-(skill + generator.normal(0, 1.5, (STEPS, PROMPTS, 1)))))
    return Run((generator.random((STEPS, PROMPTS, GROUP)) < chance).astype(np.float64), _ratios(generator))


def graded_run(generator: Generator) -> Run:
    """A few marks added up: format 0.1, parts 0 to 0.6 in tenths, the answer 0.3."""
    ability = generator.beta(2, 2, (STEPS, PROMPTS, 1))
    shape = (STEPS, PROMPTS, GROUP)
    form = 0.1 * (generator.random(shape) < 0.9)
    parts = generator.binomial(6, np.broadcast_to(ability, shape)) / 10
    return Run(np.round(form + parts + 0.3 * (generator.random(shape) < ability), 10), _ratios(generator))


def heavy_run(generator: Generator) -> Run:
    """Heavy-tailed rewards without any fault (t with 3 degrees of freedom): what they do to a group is real all the same."""
    shape = (STEPS, PROMPTS, GROUP)
    return Run(generator.normal(0, 1, (STEPS, PROMPTS, 1)) + generator.standard_t(3, shape), _ratios(generator))


def _ratios(generator: Generator) -> Array:
    """Token log-ratios after a few updates: most tokens barely move, a few carry the change."""
    small = generator.normal(0, 1e-3, (PROMPTS * GROUP, TOKENS))
    carry = generator.random(small.shape) < 0.1
    return small + carry * generator.normal(0, 6e-3, small.shape)


WORLDS: dict[str, Callable[[Generator], Run]] = {
    "score": score_run,
    "rule": rule_run,
    "graded": graded_run,
    "heavy": heavy_run,
}


def _spread(run: Run) -> float:
    return float(np.std(run.reward))


def spikes(rate: float, size: float) -> Callable[[Run, Generator], Run]:
    """Adds ±`size` standard deviations of all rewards to a share of them."""

    def plant(run: Run, generator: Generator) -> Run:
        hit = generator.random(run.reward.shape) < rate
        sign = np.where(generator.random(run.reward.shape) < 0.5, 1, -1)
        return replace(run, reward=run.reward + hit * sign * size * _spread(run))

    return plant


def stuck(steps: int) -> Callable[[Run, Generator], Run]:
    """The grader returns 0 for every response of some consecutive steps."""

    def plant(run: Run, generator: Generator) -> Run:
        reward = run.reward.copy()
        first = int(generator.integers(4, STEPS - steps - 3))
        reward[first : first + steps] = 0.0
        return replace(run, reward=reward)

    return plant


def missing(rate: float) -> Callable[[Run, Generator], Run]:
    """NaN in place of a share of the rewards."""
    return lambda run, g: replace(run, reward=np.where(g.random(run.reward.shape) < rate, np.nan, run.reward))


def repeated(share: float, whole_steps: bool) -> Callable[[Run, Generator], Run]:
    """Groups logged twice: whole steps, or single groups anywhere."""

    def plant(run: Run, generator: Generator) -> Run:
        order = np.arange(STEPS * PROMPTS)
        if whole_steps:
            again = generator.choice(STEPS, max(1, round(share * STEPS)), replace=False)
            extra = np.concatenate([order.reshape(STEPS, PROMPTS)[step] for step in again])
        else:
            extra = generator.choice(order, max(1, round(share * len(order))), replace=False)
        return replace(run, repeat=np.concatenate([order, extra]))

    return plant


def wrong_groups(run: Run, generator: Generator) -> Run:
    """Rows of a step interleaved before they were cut into groups: a group holds responses to many prompts."""
    return replace(run, reward=run.reward.transpose(0, 2, 1).reshape(run.reward.shape), shuffled=True)


def scale_jump(factor: float) -> Callable[[Run, Generator], Run]:
    """All rewards multiplied from some step on."""

    def plant(run: Run, generator: Generator) -> Run:
        reward = run.reward.copy()
        reward[int(generator.integers(6, STEPS - 6)) :] *= factor
        return replace(run, reward=reward)

    return plant


def bursts(rate: float, size: float) -> Callable[[Run, Generator], Run]:
    """A fifth of the tokens of some responses, in a row, moved by `size`."""

    def plant(run: Run, generator: Generator) -> Run:
        ratios, width = run.ratios.copy(), TOKENS // 5
        for row in np.flatnonzero(generator.random(len(ratios)) < rate).tolist() or [0]:
            first = int(generator.integers(0, TOKENS - width))
            ratios[row, first : first + width] += size
        return replace(run, ratios=ratios)

    return plant


FAULTS: dict[str, tuple[Callable[[Run, Generator], Run], set[str]]] = {
    "spikes of 4 sd, 1 %": (spikes(0.01, 4), {"dominating_rewards", "contrast_lost"}),
    "spikes of 8 sd, 0.2 %": (spikes(0.002, 8), {"dominating_rewards", "contrast_lost"}),
    "spikes of 8 sd, 1 %": (spikes(0.01, 8), {"dominating_rewards", "contrast_lost"}),
    "spikes of 16 sd, 1 %": (spikes(0.01, 16), {"dominating_rewards", "contrast_lost"}),
    "spikes of 16 sd, 10 %": (spikes(0.10, 16), {"dominating_rewards", "contrast_lost"}),
    "spikes of 1000 sd, 20 %": (spikes(0.20, 1000), {"dominating_rewards", "contrast_lost"}),
    "grader stuck, 1 step": (stuck(1), {"stuck_grader"}),
    "grader stuck, 4 steps": (stuck(4), {"stuck_grader"}),
    "NaN rewards, 0.5 %": (missing(0.005), {"nonfinite_rewards"}),
    "NaN rewards, 5 %": (missing(0.05), {"nonfinite_rewards"}),
    "steps logged twice, 10 %": (repeated(0.1, True), {"repeated_groups"}),
    "single groups repeated, 5 %": (repeated(0.05, False), {"repeated_groups"}),
    "wrong group ids": (wrong_groups, {"groups_alike", "mixed_prompts"}),
    "scale jumps by 10": (scale_jump(10.0), {"scale_jump"}),
    "scale jumps to a tenth": (scale_jump(0.1), {"scale_jump"}),
    "token bursts of 0.1, 2 %": (bursts(0.02, 0.1), {"ratio_bursts"}),
    "token bursts of 1, 5 %": (bursts(0.05, 1.0), {"ratio_bursts"}),
}
"""Name -> (how it is planted, the codes of which one must be reported)."""


def codes(run: Run, channel: RewardChannel = RewardChannel(), ratio: RatioChannel = RatioChannel()) -> set[str]:  # noqa: B008 - frozen
    """The reason codes that the audit of a simulated run reports."""
    reward = run.reward.reshape(-1, GROUP)
    step = np.repeat(np.arange(1, STEPS + 1), PROMPTS)
    order = run.repeat if run.repeat is not None else np.arange(len(reward))
    reward, step = reward[order], step[order]
    groups = len(reward)
    rollouts = Rollouts(
        "simulated",
        [],
        reward=reward.ravel(),
        start=np.arange(groups + 1) * GROUP,
        step=step,
        label=pa.array([str(k) for k in range(groups)], type=pa.large_string()),
        file=np.zeros(groups * GROUP, dtype=np.int32),
        row=np.arange(groups * GROUP),
        notes=Notes(),
    )
    table, _ = group_table(rollouts, channel, lambda *_: None)
    return {
        finding.code for finding in findings(Evidence(rollouts, table, _ratio_table(run, ratio), (0, 0)), thresholds())
    }


def _ratio_table(run: Run, channel: RatioChannel) -> RatioTable:
    mean, soft = weights(list(run.ratios), channel)
    n = len(mean)
    sign = np.where(np.arange(n) % 2, 1.0, -1.0)
    zeros = np.zeros(n, dtype=np.int64)
    band = np.full(n, 3e-4), np.full(n, 4e-4)
    return RatioTable(zeros, zeros, np.full(n, TOKENS), mean, soft, sign, *band)


def matrix(seeds: int) -> list[dict[str, Any]]:
    """One row per world and fault: share of runs in which it was found, and which other codes were reported how often."""
    rows = []
    for world, simulate in WORLDS.items():
        for fault, (plant, expected) in {"none (clean)": (None, set()), **FAULTS}.items():
            found, other = 0, 0
            for seed in range(seeds):
                run = simulate(np.random.default_rng((seed, 1)))
                if plant is not None:
                    run = plant(run, np.random.default_rng((seed, 2)))
                reported = codes(run)
                found += bool(reported & expected)
                other += bool(reported - expected)
            rows.append(
                {
                    "world": world,
                    "fault": fault,
                    "expected": sorted(expected),
                    "found": found / seeds,
                    "other": other / seeds,
                }
            )
    return rows


def markdown(rows: list[dict[str, Any]], seeds: int) -> str:
    """The table of docs/audit-faults.md."""
    worlds = list(WORLDS)
    cell = {(row["world"], row["fault"]): row for row in rows}
    lines = [
        "| fault | reason code | " + " | ".join(worlds) + " |",
        "|---|---|" + "---:|" * len(worlds),
        "| none: share of clean runs with any finding | any | "
        + " | ".join(f"{100 * cell[world, 'none (clean)']['other']:.0f} %" for world in worlds)
        + " |",
    ]
    for fault, (_, expected) in FAULTS.items():
        shares = " | ".join(f"{100 * cell[world, fault]['found']:.0f} %" for world in worlds)
        lines.append(f"| {fault} | {' or '.join(f'`{code}`' for code in sorted(expected))} | {shares} |")
    return "\n".join([*lines, "", f"{seeds} runs per cell, seeds 0 to {seeds - 1}."])


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the matrix; with --write puts it into the page of the documentation, between its marks."""
    parser = argparse.ArgumentParser(prog="python -m rovrl.audit.faults", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", metavar="FILE", help="replace the table between the marks in this file")
    args = parser.parse_args(argv)
    rows = matrix(max(1, args.seeds))
    table = markdown(rows, max(1, args.seeds))
    print(json.dumps({"seeds": args.seeds, "rows": rows}) if args.json else table)
    if args.write:
        path = Path(args.write)
        before, _, rest = path.read_text(encoding="utf-8").partition("<!-- matrix -->")
        after = rest.partition("<!-- end of matrix -->")[2]
        path.write_text(f"{before}<!-- matrix -->\n{table}\n<!-- end of matrix -->{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
