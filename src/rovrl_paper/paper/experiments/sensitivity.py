"""beyond:sensitivity: what each setting costs and buys on the calibrated streams. Not in the paper."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch

from rovrl.config import RatioChannel, RewardChannel
from rovrl.credit import FORMULAS
from rovrl.groups import partition
from rovrl.output.intervals import shared_draws
from rovrl.robust.location import pooled_whole_scale
from rovrl.scales import resolve
from rovrl.weight import gspo_mean, soft_rovr
from rovrl_paper.paper.experiments import token_stress
from rovrl_paper.paper.item import Bootstrapped, Check, Progress, Row, Table
from rovrl_paper.paper.plot import axes, plain_ticks
from rovrl_paper.stress.ratios import Condition, draw_positions, stress
from rovrl_paper.stress.recorded import published_responses
from rovrl_paper.stress.rewards import Contender, measure, summarize
from rovrl_paper.worlds import published_rewards

REWARD_GRID: dict[str, tuple[float, ...]] = {
    "credit_bound": (0.08, 0.165, 0.33, 0.66, 1.0, 2.0, 4.0),
    "score_width": (0.1, 0.3, 1.0, 3.0, 10.0),
    "num_blocks": (1, 2, 3, 5),
    "num_levels": (1, 3, 9, 31),
}
RATIO_GRID: dict[str, tuple[float, ...]] = {
    "score_width": (0.01, 0.03, 0.1, 1.0),
    "num_blocks": (1, 4, 8, 16, 32),
    "num_levels": (1, 3, 9, 31),
    "temperature": (1e-3, 3e-3, 1e-2, 3e-2, 1e-1),
    "median_width": (1e-3, 3e-3, 1e-2, 3e-2, 1e-1),
}
SYMBOLS = {
    "credit_bound": "κ", "score_width": "c", "num_blocks": "B", "num_levels": "K", "temperature": "γ", "median_width": "η",
}  # fmt: skip
BURST, SPIKE = Condition("burst", 0.2, 1), Condition("spike", 16.0, 1)


@dataclass(frozen=True)
class Setting(Bootstrapped):
    """The sizes of the two streams."""

    groups: int = 1_000
    prompts: int = 32
    replicates: int = 200


FULL = Setting()
SMOKE = Setting(groups=24, prompts=1, replicates=20)


def run(setting: Setting, progress: Progress) -> list[Row]:
    """One setting at a time away from its default: robustness bought, fidelity paid."""
    generator = torch.Generator().manual_seed(setting.seed)
    total = sum(map(len, REWARD_GRID.values())) + sum(map(len, RATIO_GRID.values()))
    rows = []
    for row in (*_reward_rows(setting, generator), *_ratio_rows(setting, generator)):
        rows.append(row)
        progress(len(rows), total)
    return rows


def _reward_rows(setting: Setting, generator: torch.Generator) -> Iterator[Row]:
    rewards = published_rewards(setting.groups, 16, generator)
    sigma = float(rewards.std(correction=0))
    draws = shared_draws(setting.groups, setting.replicates, generator)
    scale = pooled_whole_scale(rewards, RewardChannel())  # of the clean rewards, as an earlier step would know it
    plain = FORMULAS["grpo"](rewards, partition(16, RewardChannel())[0], RewardChannel()).advantages
    for name, values in REWARD_GRID.items():
        for value in values:
            budget = {"arbitrary_blocks": 0, "replaced_per_block": 1}  # every B of the grid carries it
            channel = RewardChannel.from_dict({**budget, name: value})
            blocks, _ = partition(16, channel)
            channel = resolve(channel, scale, blocks)
            contender = Contender(name, name, lambda x, b=blocks, c=channel: FORMULAS["credit"](x, b, c))
            found = measure(rewards, contender, 16 * sigma, sigma)
            kept, low, high = summarize(found["contrast_retention"], draws)
            shift, _, _ = summarize(found["reference_displacement"], draws)
            clean = contender.apply(rewards).advantages
            fidelity = torch.corrcoef(torch.stack((plain.flatten(), clean.flatten())))[0, 1]
            yield {
                "channel": "reward", "setting": name, "value": value, "bought": kept, "low": low, "high": high,
                "also": shift, "fidelity": float(fidelity),
            }  # fmt: skip


def _ratio_rows(setting: Setting, generator: torch.Generator) -> Iterator[Row]:
    tokens = published_responses(
        setting.prompts, 16, token_stress.SIGMA, token_stress.ZERO_SHARE, token_stress.HARMONIC_LENGTH, generator
    )
    places = draw_positions(len(tokens.length), generator)
    mean = gspo_mean(tokens.log_ratios, tokens.mask)
    for name, values in RATIO_GRID.items():
        for value in values:
            channel = RatioChannel.from_dict({name: value})
            found = stress(tokens, [BURST, SPIKE], channel, places)
            ratio = found["D_q/softrovr"].sum(-1) / found["D_q/gspo"].sum(-1)
            clean = soft_rovr(tokens.log_ratios, tokens.mask, channel)
            moved = tokens.log_ratios.abs().amax(-1) > 0
            error = (clean - mean)[moved].square().mean().sqrt()
            each = 1 - found["D_q/softrovr"][0] / found["D_q/gspo"][0]
            half = 1.96 * float(each.std()) / len(each) ** 0.5 if len(each) > 1 else float("nan")
            bought = 1 - float(ratio[0])
            yield {
                "channel": "ratio", "setting": name, "value": value, "bought": bought, "low": bought - half,
                "high": bought + half, "also": 1 - float(ratio[1]), "fidelity": float(error),
            }  # fmt: skip


def tables(rows: list[Row]) -> dict[str, Table]:
    """Both channels in one table; a star marks the default."""
    body = []
    for r in rows:
        default = getattr(RewardChannel() if r["channel"] == "reward" else RatioChannel(), r["setting"])
        star = " *" if r["value"] == default else ""
        fidelity = f"{r['fidelity']:.4f}" if r["channel"] == "reward" else f"{r['fidelity']:.2e}"
        bought = f"{r['bought']:.3f} [{r['low']:.3f}, {r['high']:.3f}]"
        body.append(
            [r["channel"], SYMBOLS[r["setting"]], f"{r['value']:g}{star}", bought, f"{r['also']:.3f}", fidelity]
        )
    header = [
        "Channel", "Symbol", "Value", "Bought: contrast kept / burst D_q removed", "Reference shift (σ) / spike D_q removed",
        "Fidelity: correlation with GRPO / RMS distance to the mean, clean",
    ]  # fmt: skip
    return {"beyond:sensitivity": Table(header, body, "One setting at a time; * marks the default.")}


def checks(rows: list[Row]) -> dict[str, list[Check]]:
    """Nothing is published to compare with; the trade-off that eq:credit_clean_fidelity states must show."""
    bound = [r for r in rows if r["setting"] == "credit_bound"]
    kept, fidelity = [r["bought"] for r in bound], [r["fidelity"] for r in bound]
    steps = len(bound) - 1
    falls = sum(a >= b for a, b in pairwise(kept))
    rises = sum(a <= b for a, b in pairwise(fidelity))
    return {
        "beyond:sensitivity": [
            Check("larger κ keeps less contrast: steps of the grid", falls, steps, "all", falls == steps),
            Check("larger κ is closer to GRPO on clean data: steps of the grid", rises, steps, "all", rises == steps),
        ]
    }


def figures() -> dict[str, Callable[[list[Row]], Any]]:
    """What each setting buys."""
    return {"beyond:sensitivity": _figure}


def _figure(rows: list[Row]) -> Any:
    grids = [("reward", name) for name in REWARD_GRID] + [("ratio", name) for name in RATIO_GRID]
    figure, panels = axes(12, 5.6, 2, 5, sharey="row")
    panels[0, -1].axis("off")
    words = (
        "above: reward channel\nred: contrast kept under 16 σ\nblue: correlation with GRPO,\n         clean rewards\n\n"
        "below: ratio channel\nred: D_q of a 20 % burst removed\nblue: D_q of a 16 σ spike removed\n\ndashed: the default"
    )
    panels[0, -1].text(0.0, 0.5, words, va="center", fontsize=9)
    for (channel, name), axis in zip(grids, [*panels[0, :4], *panels[1]], strict=True):
        mine = [r for r in rows if (r["channel"], r["setting"]) == (channel, name)]
        x = [r["value"] for r in mine]
        axis.plot(x, [r["bought"] for r in mine], color="#D55E00", lw=2, marker="o", ms=4)
        axis.fill_between(x, [r["low"] for r in mine], [r["high"] for r in mine], color="#D55E00", alpha=0.2, lw=0)
        second = "fidelity" if channel == "reward" else "also"
        axis.plot(x, [r[second] for r in mine], color="#0072B2", lw=1.5, marker="s", ms=3)
        default = getattr(RewardChannel() if channel == "reward" else RatioChannel(), name)
        axis.axvline(default, color="0.7", lw=1, ls="--")
        axis.set(xlabel=f"{SYMBOLS[name]}  ({name})", ylim=(0, 1.02))
        plain_ticks(axis, "x", x)
        axis.tick_params(axis="x", labelrotation=40)
    panels[0, 0].set_ylabel("reward channel")
    panels[1, 0].set_ylabel("ratio channel")
    return figure
