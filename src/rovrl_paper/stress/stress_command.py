"""`rovrl stress rewards | ratios | alignment | rollouts`: the paper's stress protocols, on your records or simulated."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import torch

from rovrl.config import RewardChannel
from rovrl.errors import RovrlError
from rovrl.output.intervals import shared_draws
from rovrl.output.progress import progress_bar
from rovrl.scales import ADAPTIVE_BOUND, ADAPTIVE_FLOOR
from rovrl_paper.stress import alignment, rollouts
from rovrl_paper.stress.ratios import WEIGHTS, Row, conditions, draw_positions, log_ratio_sd, rows_for
from rovrl_paper.stress.recorded import recorded_steps, reward_groups
from rovrl_paper.stress.rewards import MEASURES, contenders, far_apart, measure, suggestions, summarize

EXAMPLE = """\
examples (each mode has a help of its own: rovrl stress ratios --help):
  rovrl stress rewards runs/mine/records            one reward moved by 16 σ: what is left of the contrast?
  rovrl stress rewards runs/mine/records --suggest  which credit bound fits these rewards
  rovrl stress ratios runs/mine/records --step 18   spikes and bursts of token log-ratios
  rovrl stress alignment                            every method in worlds whose truth is known
  rovrl stress rollouts                             what a sum, a mean and SoftRoVR see of another engine's rounding
"""
RECORDS = (
    "PATH is a record set of `rovrl train` or of RoVRTrainer(record_dir=...); for verl, `python -m rovrl.records.join` makes "
    "one."
)
SEED = 20250904
"""The paper's bootstrap seed."""
SAME = 0.01
"""Where every displacement of SoftRoVR is within this share of the mean's, the ratio channel does nothing."""


class Mode(NamedTuple):
    """One way to stress: its line of help, its options, and what it runs."""

    line: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    more: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The modes of `rovrl stress`, each with its own options."""
    modes = parser.add_subparsers(title="modes", metavar="MODE", required=True)
    for name, mode in MODES.items():
        one = modes.add_parser(
            name,
            help=mode.line,
            description=mode.line,
            epilog=mode.more,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        mode.add_arguments(one)
        one.set_defaults(mode=mode)


def run(args: argparse.Namespace) -> int:
    """Runs the mode; 0."""
    return args.mode.run(args)


def _of_records(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=Path, metavar="PATH", help="a directory of records")
    parser.add_argument("--replicates", type=int, default=500, help="bootstrap replicates (default: 500)")
    parser.add_argument(
        "--seed", type=int, default=SEED, help="of the bootstrap and of what is drawn (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")


def _rewards_arguments(parser: argparse.ArgumentParser) -> None:
    _of_records(parser)
    parser.add_argument("--alpha", type=float, default=16.0, help="size of the contamination in σ (default: 16)")
    parser.add_argument("--suggest", action="store_true", help="propose a credit bound for these rewards")


def _ratios_arguments(parser: argparse.ArgumentParser) -> None:
    _of_records(parser)
    parser.add_argument("--step", type=int, help="which step (default: the upper middle one)")


def _check_records(args: argparse.Namespace) -> None:
    if not args.path.exists():
        raise RovrlError(f"{args.path} does not exist; give a directory of records (rovrl train writes RUN/records)")
    if args.replicates < 1:
        raise RovrlError(f"--replicates must be at least 1, not {args.replicates}")


def rewards(args: argparse.Namespace) -> int:
    """One contaminated reward in every recorded group."""
    _check_records(args)
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
    apart = far_apart(values, scale)
    if as_json:
        suggested = [asdict(s) for s in found]
        print(json.dumps({"spread": scale, "groups_with_few_far_apart": apart, "suggestions": suggested}, indent=1))
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
    if apart:
        print(
            f"\nIn {apart} of {len(values)} groups a few responses lie far from all others. If they are broken, that is what a "
            "bound is for;\nif they are right answers that are rare, it takes from them what they should teach: then leave κ "
            'at the size of\nthe reward of a right answer, or let faults="reject" tell the two apart (docs/faults.md).'
        )
    return 0


def ratios(args: argparse.Namespace) -> int:
    """Spikes and bursts in the token log-ratios of one recorded step."""
    _check_records(args)
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
    nothing = _does_nothing(rows)
    if args.json:
        counts = {"step": step, "prompts": prompts, "responses": len(responses.length)}
        print(json.dumps(counts | {"ratio_channel_does_nothing": nothing, "rows": rows}, indent=1))
        return 0
    band = f"[-{responses.clip_low:g}, +{responses.clip_high:g}]"
    print(f"step {step}: {len(responses.length)} responses of {prompts} prompts, band {band}")
    print(f"{'':22} {'D_q (1e-3)':>36} {'branch flips (%)':>36}")
    print(
        f"{'':22} {'GSPO':>10} {'SoftRoVR':>10} {'robust units':>14} {'GSPO':>10} {'SoftRoVR':>10} {'robust units':>14}"
    )
    for shift, flips in zip(rows[::2], rows[1::2], strict=True):
        what = f"spike {shift['severity']:g}σ" if shift["perturbation"] == "spike" else f"burst {shift['severity']:.0%}"
        methods, sign = list(WEIGHTS), "+" if shift["sign"] > 0 else "-"
        cells = [1e3 * shift[m] for m in methods] + [100 * flips[m] for m in methods]
        numbers = " ".join(f"{c:{w}.3f}" for c, w in zip(cells, (10, 10, 14) * 2, strict=True))
        print(f"{what:>18} {sign:>3} {numbers}")
    if nothing:
        spread = float(log_ratio_sd(responses).median())
        print(
            f"\nSoftRoVR moves as far as the mean: on these log-ratios (standard deviation {spread:.2g} within a response) the "
            "ratio channel does\nnothing, since its score_width, temperature and median_width are absolute numbers far above "
            'them. units="robust" takes them\nfrom each response (the third column), units="adaptive" from the run.'
        )
    return 0


def _does_nothing(rows: list[Row]) -> bool:
    """Whether SoftRoVR is displaced as far as the mean, to one part in a hundred, wherever the mean is displaced."""
    moved = [row for row in rows if row["metric"] == "D_q" and row["gspo"] > 0]
    return bool(moved) and all(abs(row["softrovr"] / row["gspo"] - 1) <= SAME for row in moved)


MODES = {
    "rewards": Mode(
        "one reward of every recorded group moved: what is left of the contrast?", _rewards_arguments, rewards, RECORDS
    ),
    "ratios": Mode("spikes and bursts in the recorded token log-ratios of a step", _ratios_arguments, ratios, RECORDS),
    "alignment": Mode(
        "every method in simulated worlds whose truth is known",
        alignment.add_arguments,
        alignment.run,
        "example: rovrl stress alignment --world spikes --rate 0.25 --group 8 --contrast 0.5",
    ),
    "rollouts": Mode(
        "what statistics of another engine's log-probabilities see, in simulated responses",
        rollouts.add_arguments,
        rollouts.run,
        "example: rovrl stress rollouts --seed 1",
    ),
}
"""By name."""
