"""`rovrl stress rewards PATH [--suggest]`, `rovrl stress ratios PATH`: the paper's stress protocols on your own records.

`rovrl stress alignment`: every method in simulated worlds whose truth is known. `rovrl stress rollouts`: what statistics of
another engine's log-probabilities see.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

import torch

from rovrl.config import RewardChannel
from rovrl.errors import RovrlError
from rovrl.output.intervals import shared_draws
from rovrl.output.progress import progress_bar
from rovrl.scales import ADAPTIVE_BOUND, ADAPTIVE_FLOOR
from rovrl_paper.stress import rollouts
from rovrl_paper.stress import worlds_cli as worlds
from rovrl_paper.stress.measured import rows_for
from rovrl_paper.stress.ratios import conditions, draw_positions
from rovrl_paper.stress.recorded import recorded_steps, reward_groups
from rovrl_paper.stress.rewards import MEASURES, contenders, measure, suggestions, summarize

EXAMPLE = """\
examples:
  rovrl stress rewards runs/mine/records            one reward moved by 16 σ: what is left of the contrast?
  rovrl stress rewards runs/mine/records --suggest  which credit bound fits these rewards
  rovrl stress ratios runs/mine/records --step 18   spikes and bursts of token log-ratios
  rovrl stress alignment                            every method in worlds whose truth is known
  rovrl stress rollouts                             what a sum, a mean and SoftRoVR see of another engine's rounding
  rovrl stress alignment --world spikes --rate 0.25 --group 8 --contrast 0.5
PATH is a record set of `rovrl train` or of RoVRTrainer(record_dir=...); for verl, `python -m rovrl.records.join` makes one.
"""

SIMULATED = {"alignment": worlds.run, "rollouts": rollouts.run}
"""What needs no records."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `rovrl stress`."""
    parser.add_argument("statistic", choices=["rewards", "ratios", "alignment", "rollouts"])
    parser.add_argument("path", type=Path, nargs="?", help="rewards, ratios: directory of records")
    parser.add_argument(
        "--alpha", type=float, default=16.0, help="rewards: size of the contamination in σ (default: 16)"
    )
    parser.add_argument("--suggest", action="store_true", help="rewards: propose a credit bound for these rewards")
    parser.add_argument("--step", type=int, help="ratios: which step (default: the upper middle one)")
    parser.add_argument("--replicates", type=int, default=500, help="bootstrap replicates (default: 500)")
    parser.add_argument("--seed", type=int, default=20250904)
    parser.add_argument("--json", action="store_true", help="as JSON")
    worlds.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Prints the table; 0."""
    if args.statistic in SIMULATED:
        return SIMULATED[args.statistic](args)
    if args.path is None:
        raise RovrlError(
            f"rovrl stress {args.statistic} needs a directory of records, such as RUN/records of rovrl train"
        )
    if not args.path.exists():
        raise RovrlError(f"{args.path} does not exist; give a directory of records (rovrl train writes RUN/records)")
    if args.replicates < 1:
        raise RovrlError(f"--replicates must be at least 1, not {args.replicates}")
    return {"rewards": rewards, "ratios": ratios}[args.statistic](args)


def rewards(args: argparse.Namespace) -> int:
    """One contaminated reward in every recorded group."""
    groups = reward_groups(args.path)
    values = groups.rewards
    sigma = float(values.std(correction=0))
    count, size = values.shape
    note = f", {groups.left_out} others left out" if groups.left_out else ""
    header = f"{count} groups of {size}{note}; σ of all rewards {sigma:.4g}"
    if args.suggest:
        return _suggest(values, sigma, header, args.json)
    generator = torch.Generator().manual_seed(args.seed)
    draws = shared_draws(count, args.replicates, generator)
    rows = []
    everyone = contenders(values, RewardChannel())
    with progress_bar("stress") as progress:
        for done, contender in enumerate(everyone):
            found = measure(values, contender, args.alpha * sigma, sigma)
            rows.append({"estimator": contender.title} | {m: summarize(found[m], draws) for m in MEASURES})
            progress(done + 1, len(everyone))
    if args.json:
        print(json.dumps({"groups": count, "sigma": sigma, "alpha": args.alpha, "rows": rows}, indent=1))
        return 0
    print(
        f"{header}\none reward moved by ± {args.alpha:g} σ; medians over groups, 95 % bootstrap intervals (seed {args.seed})\n"
    )
    print(f"{'':24}" + "".join(f"{m.replace('_', ' '):>28}" for m in MEASURES))
    for row in rows:
        cells = [_cell(*row[m]) for m in MEASURES]
        print(f"{row['estimator']:24}" + "".join(f"{c:>28}" for c in cells))
    return 0


def _cell(middle: float, low: float, high: float) -> str:
    return "-" if middle != middle else f"{middle:.3f} [{low:.3f}, {high:.3f}]"


def _suggest(values: torch.Tensor, sigma: float, header: str, as_json: bool) -> int:
    scale, found = suggestions(values, RewardChannel(), sigma)
    if as_json:
        print(json.dumps({"spread": scale, "suggestions": [asdict(s) for s in found]}, indent=1))
        return 0
    if not found:
        print(f"{header}\nNo group has any contrast: there is nothing to choose a credit bound by.")
        return 0
    print(f"{header}; spread within groups {scale:.4g}\n")
    print(
        f"{'κ / spread':>10} {'credit_bound':>13} {'credit_floor':>13} {'contrast kept at 16 σ':>23} {'clean correlation':>18}"
    )
    for s in found:
        mark = "  <- adaptive" if s.multiple == ADAPTIVE_BOUND else ""
        print(
            f"{s.multiple:10g} {s.credit_bound:13.4g} {s.credit_floor:13.4g} {s.contrast_retention:23.3f} "
            f"{s.clean_correlation:18.4f}{mark}"
        )
    print(
        '\nSmaller bounds keep more contrast when a reward is broken and bend clean advantages more. credit_bound="adaptive"'
        f"\nkeeps κ at twice the spread of earlier steps; fixed numbers for these rewards: "
        f"credit_bound={ADAPTIVE_BOUND * scale:.3g}, "
        f"credit_floor={ADAPTIVE_FLOOR * scale:.3g}."
    )
    return 0


def ratios(args: argparse.Namespace) -> int:
    """Spikes and bursts in the token log-ratios of one recorded step."""
    steps = [step for step, _ in recorded_steps(args.path)]
    if not steps:
        raise RovrlError(f"no token log-ratios in {args.path}; record them with the ratio channel on (docs/records.md)")
    step = steps[len(steps) // 2] if args.step is None else args.step
    if step not in steps:
        raise RovrlError(f"step {step} has no token log-ratios; the recorded steps are {steps[0]} to {steps[-1]}")
    responses = next(r for s, r in recorded_steps(args.path) if s == step)
    generator = torch.Generator().manual_seed(args.seed)
    prompts = len(responses.prompt.unique())
    draws = shared_draws(prompts, args.replicates, generator)
    places = draw_positions(len(responses.length), generator)
    todo, rows = conditions(), []
    with progress_bar("stress") as progress:
        for done, condition in enumerate(todo):
            rows += rows_for(responses, condition, places, draws)
            progress(done + 1, len(todo))
    if args.json:
        print(
            json.dumps({"step": step, "prompts": prompts, "responses": len(responses.length), "rows": rows}, indent=1)
        )
        return 0
    band = f"[-{responses.clip_low:g}, +{responses.clip_high:g}]"
    print(f"step {step}: {len(responses.length)} responses of {prompts} prompts, band {band}")
    print(f"{'':22} {'D_q (1e-3)':>36} {'branch flips (%)':>36}")
    print(
        f"{'':22} {'GSPO':>10} {'SoftRoVR':>10} {'robust units':>14} {'GSPO':>10} {'SoftRoVR':>10} {'robust units':>14}"
    )
    for shift, flips in zip(rows[::2], rows[1::2], strict=True):
        what = f"spike {shift['severity']:g}σ" if shift["perturbation"] == "spike" else f"burst {shift['severity']:.0%}"
        methods, sign = ("gspo", "softrovr", "robust"), "+" if shift["sign"] > 0 else "-"
        cells = [1e3 * shift[m] for m in methods] + [100 * flips[m] for m in methods]
        numbers = " ".join(f"{c:{w}.3f}" for c, w in zip(cells, (10, 10, 14) * 2, strict=True))
        print(f"{what:>18} {sign:>3} {numbers}")
    return 0
