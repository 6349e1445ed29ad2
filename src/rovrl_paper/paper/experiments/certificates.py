"""beyond:certificates: the paper's bounds, our sharper ones, and the worst attack found on each. Not in the paper."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import NormalDist, median
from typing import Any

import torch
from torch import Tensor

from rovrl import guarantees as g
from rovrl.config import RewardChannel
from rovrl.credit import FORMULAS
from rovrl.groups import partition
from rovrl.robust.blocks import Blocks
from rovrl.robust.location import rovr
from rovrl.scales import batch_scales, resolve
from rovrl_paper.paper.attacks import (
    attack_credit,
    attack_law,
    attack_loads,
    attack_rewards,
    attack_scattered,
)
from rovrl_paper.paper.item import Check, Progress, Row, Table
from rovrl_paper.paper.plot import axes, finish, plain_ticks
from rovrl_paper.worlds import published_rewards

LABEL = "beyond:certificates"
SIZES, LARGE = (6, 5, 5), (100,) * 9
FAILURES = ((1, 1, 4.0), (0, 1, 3.0), (1, 0, 3.0))
"""(q, s, t) of the finite-group rows: blocks of 6, 5, 5 and a standard normal law at c = 1."""
ROWS = 31
CLOSE = 2.0
"""An attack within this factor shows that a bound cannot be halved."""


@dataclass(frozen=True)
class Setting:
    """How many groups are attacked."""

    groups: int = 60
    seed: int = 0


FULL = Setting()
SMOKE = Setting(groups=6)


def run(setting: Setting, progress: Progress) -> list[Row]:
    """A row per statement and setting."""
    rows: list[Row] = []
    for row in (*_deterministic(setting), *_chances()):
        rows.append(row)
        progress(len(rows), ROWS)
    return rows


def _deterministic(setting: Setting) -> Iterator[Row]:
    generator = torch.Generator().manual_seed(setting.seed)
    scores = published_rewards(setting.groups, 16, generator)
    share = torch.rand(setting.groups, 1, generator=generator)
    binary = (torch.rand(setting.groups, 16, generator=generator) < share).double()
    yield _envelope()
    for name, x in (("scores", scores), ("0/1", binary)):
        for adaptive in (False, True):
            channel = RewardChannel(credit_bound="adaptive", credit_floor="adaptive") if adaptive else RewardChannel()
            words = f"{name}, {'adaptive' if adaptive else 'default'} κ"
            yield _given_shift(words, x, channel)
            for r in (1, 2, 3):
                yield _tolerated(words, x, channel, r)


def _envelope() -> Row:
    """Two centers at 0 and one far away attain the envelope of three blocks."""
    x = torch.tensor([[0.0] * 11 + [1e9] * 5], dtype=torch.float64)
    found = rovr(x, Blocks.contiguous(16, 3), RewardChannel(scale_source=10.0))
    paper, ours = (envelope(SIZES, 9, 10.0) for envelope in (g.correction_envelope, g.sharp_correction_envelope))
    return _row("outer correction", "blocks of 6, 5, 5, ν_max = 10", paper, ours, found)


def _given_shift(words: str, x: Tensor, channel: RewardChannel) -> Row:
    """prop:credit_stability for one replaced reward and a reference that moves by at most 0.06 σ = 0.07."""
    blocks, settings = _resolved(x, channel)
    theta, (kappa, floor), e = FORMULAS["credit"](x, blocks, settings).reference, _limits(settings), 0.07
    paper = g.credit_stability(0.0, e, 1, 16, kappa, floor)
    ours = g.credit_certificate(x, theta, 1, e, kappa, floor).amax(-1)
    found = attack_credit(x, theta, 1, e, kappa, floor)
    return _row("change of an advantage, r = 1, reference moves by at most 0.07", words, paper, ours, found)


def _tolerated(words: str, x: Tensor, channel: RewardChannel, r: int) -> Row:
    blocks, settings = _resolved(x, channel)
    ours = g.tolerance(x, channel, replaced=r)
    theta = FORMULAS["credit"](x, blocks, settings).reference
    reach = torch.maximum(ours.high - theta, theta - ours.low).tolist()
    paper = torch.tensor([g.credit_stability(0.0, e, r, 16, *_limits(settings)) for e in reach])
    found = attack_rewards(x, blocks, settings, r)
    return _row(f"change of an advantage, r = {r}", words, paper, ours.change, found)


def _chances() -> Iterator[Row]:
    for q, s, t in FAILURES:
        a = g.separation(NormalDist().inv_cdf, t, 1.0)
        paper = g.reference_failure(t, SIZES, s, q, a, 1.0)
        entropy = g.sharp_reference_failure(t, SIZES, s, q, a, 1.0, tails="entropy")
        ours = g.sharp_reference_failure(t, SIZES, s, q, a, 1.0)
        words = f"P(reference off by more than {t:g} + Ĉ_B), q = {q}, s = {s}"
        found = attack_law(SIZES, s, q, a * t)
        yield _row(words, "blocks of 6, 5, 5, normal law, relative entropy", paper, entropy, found)
        yield _row(words, "blocks of 6, 5, 5, normal law, binomial", paper, ours, found)
    for words, sizes, m, delta in (("1 of 16", SIZES, 1, 0.05), ("9 of 900", LARGE, 9, 0.02)):
        loads = g.exact_loads(sizes, m, delta)
        found = attack_loads(sizes, m, delta)
        yield _row(
            "bad rewards in one block",
            f"{words}, δ = {delta:g}",
            max(g.partition_budgets(sizes, m, delta)),
            max(loads),
            found,
        )
    for t in (0.3, 0.4, 0.6):
        a = g.separation(NormalDist().inv_cdf, t, 1.0)
        paper = g.partition_failure(t, LARGE, 9, a, 1.0, 0.02)
        exact = min(1.0, 0.02 + g.reference_failure(t, LARGE, g.exact_loads(LARGE, 9, 0.02), 0, a, 1.0))
        words = f"P(reference off by more than {t:g} + Ĉ_B), 9 bad of 900"
        found = attack_scattered(LARGE, 9, a * t)
        yield _row(words, "9 blocks of 100, normal law, exact loads", paper, exact, found)
        yield _row(
            words,
            "9 blocks of 100, normal law, all of it",
            paper,
            g.sharp_partition_failure(t, LARGE, 9, a, 1.0),
            found,
        )


def _row(statement: str, setting: str, paper: float | Tensor, ours: float | Tensor, attack: float | Tensor) -> Row:
    """Medians over the groups, and the attack's share of our bound: in the median group and in the best and worst one."""
    paper, ours, attack = (torch.as_tensor(v, dtype=torch.float64).flatten() for v in (paper, ours, attack))
    share = (attack / ours).tolist()
    columns = {"paper": paper.tolist(), "ours": ours.tolist(), "attack": attack.tolist(), "share": share}
    row = {name: median(values) for name, values in columns.items()}
    return {"statement": statement, "setting": setting, **row, "least": min(share), "most": max(share)}


def _resolved(x: Tensor, channel: RewardChannel) -> tuple[Blocks, RewardChannel]:
    blocks, _ = partition(x.shape[-1], channel)
    scales = batch_scales([x], channel)
    return blocks, resolve(channel, scales.scale, blocks, spread=scales.spread)


def _limits(channel: RewardChannel) -> tuple[float, float]:
    return float(channel.credit_bound), float(channel.credit_floor)


def tables(rows: list[Row]) -> dict[str, Table]:
    """Statement by statement: the paper's bound, ours, the worst attack found."""
    body = [
        [r["statement"], r["setting"], _number(r["paper"]), _number(r["ours"]), _number(r["attack"]), _share(r)]
        for r in rows
    ]
    header = ["What is bounded", "Setting", "Paper", "Ours", "Worst attack found", "Attack / ours"]
    caption = (
        "Changes of an advantage: medians over groups of 16 (scores: the calibrated stream; 0/1: success rates spread evenly), "
        "in brackets the least and the largest share over the groups. Where no change of the reference is given, r replaced "
        "rewards move it as far as they can, and the paper's bound is prop:credit_stability at the change that we certify, "
        "since the paper has none for given data. The other rows are single numbers."
    )
    return {LABEL: Table(header, body, caption)}


def _number(value: float) -> str:
    return f"{value:.2e}" if value >= 1e4 or 0 < value < 1e-3 else f"{value:.3g}"


def _share(r: Row) -> str:
    spread = f" [{r['least']:.2g}, {r['most']:.2g}]" if r["least"] != r["most"] else ""
    return f"{r['share']:.2g}{spread}"


def checks(rows: list[Row]) -> dict[str, list[Check]]:
    """No attack passes a bound, no bound of ours passes the paper's, and changes cannot be halved."""
    passed = sum(r["most"] > 1 + 1e-9 for r in rows)
    above = sum(r["ours"] > r["paper"] * (1 + 1e-9) for r in rows)
    changes = [r["share"] for r in rows if r["statement"].startswith(("change", "outer"))]
    loose = sum(share < 1 / CLOSE for share in changes)
    return {
        LABEL: [
            Check("attacks that pass our bound", passed, 0, "none", passed == 0),
            Check("bounds of ours above the paper's", above, 0, "none", above == 0),
            Check("changes whose bound could be halved for the median group", loose, 0, "none", loose == 0),
        ]
    }


def figures() -> dict[str, Callable[[list[Row]], Any]]:
    """Bounds and attacks side by side."""
    return {LABEL: _figure}


def _figure(rows: list[Row]) -> Any:
    mine = [r for r in rows if r["statement"].startswith("change")]
    figure, axis = axes(8.5, 4.6)
    place = list(range(len(mine)))
    for name, colour, marker in (("paper", "0.5", "x"), ("ours", "#D55E00", "o"), ("attack", "#0072B2", "s")):
        axis.plot(
            [r[name] for r in mine], place, marker, color=colour, label={"attack": "worst attack found"}.get(name, name)
        )
    axis.set_yticks(
        place, [f"{r['statement'].removeprefix('change of an advantage, ')}; {r['setting']}" for r in mine], fontsize=8
    )
    plain_ticks(axis, "x", (0.1, 1, 10, 1e3, 1e5, 1e7))
    axis.invert_yaxis()
    axis.set_xlabel("change of an unchanged response's advantage (median group)")
    return finish(figure, axis)
