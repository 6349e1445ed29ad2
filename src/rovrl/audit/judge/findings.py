"""What is wrong with a run, in plain words, each with its reason code, its number and the threshold it passed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rovrl.audit.judge import checks
from rovrl.audit.judge.codes import CODES
from rovrl.audit.measure.ratios import RatioTable
from rovrl.audit.measure.statistics import GroupTable
from rovrl.audit.read.rollouts import Rollouts

Measured = Iterator[tuple[str, float, str]]
"""(reason code, value, the sentence to say if the value is above its threshold)"""


@dataclass(frozen=True)
class Finding:
    """One finding: its code, the measured value, the threshold, what it means and what to do."""

    code: str
    value: float
    threshold: float
    sentence: str
    advice: str

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Evidence:
    """What findings are made from."""

    rollouts: Rollouts
    table: GroupTable
    ratios: RatioTable | None
    mixed: tuple[int, int]
    """(groups that hold different prompts, groups looked at)"""


def findings(evidence: Evidence, limit: Mapping[str, float]) -> list[Finding]:
    """Everything above its threshold, the most damaging first."""
    found = [
        Finding(code, value, limit[code], sentence, CODES[code].advice)
        for measure in MEASURES
        for code, value, sentence in measure(evidence)
        if value > limit[code]
    ]
    order = list(CODES)
    return sorted(found, key=lambda finding: order.index(finding.code))


def share(part: float, whole: float) -> float:
    """part/whole, 0 of nothing."""
    return float(part) / float(whole) if whole else 0.0


def percent(value: float) -> str:
    """A share for people: 12 %, 0.3 %."""
    return f"{100 * value:.0f} %" if value >= 0.0995 or value == 0 else f"{100 * value:.2g} %"


def mean_lost(table: GroupTable, credit: bool = False) -> float:
    """Mean over untied groups of the contrast lost to dominating rewards, under GRPO or under bounded credit."""
    lost = table.lost_credit if credit else table.lost
    return float(np.mean(lost[table.untied])) if table.untied.any() else 0.0


def sign_change_share(table: GroupTable) -> float:
    """Share of the responses of untied groups whose advantage changes its sign."""
    return share(table.flips.sum(), table.finite[table.untied].sum())


def weight_disagreement(ratios: RatioTable) -> float:
    """Σ|SoftRoVR - mean| / Σ|mean|, as rovrl.diagnostics.weight_disagreement."""
    return share(np.abs(ratios.soft - ratios.mean).sum(), np.abs(ratios.mean).sum())


def _outliers(e: Evidence) -> Measured:
    table = e.table
    hit = int((table.dominating > 0).sum())
    value, lost = share(hit, (~table.single).sum()), mean_lost(table)
    many = f"in {hit:,} groups ({percent(value)}) {table.dominating.sum():,} rewards"
    yield "dominating_rewards", value, f"{many} lie so far out that they decide the group's statistics"
    other = f"{percent(lost)} of the contrast among the other responses"
    credit = percent(mean_lost(table, credit=True))
    yield "contrast_lost", lost, f"GRPO's normalisation lost {other} to them; bounded credit would have lost {credit}"
    flips, value = int(table.flips.sum()), sign_change_share(table)
    many = f"{flips:,} responses ({percent(value)} of those in untied groups)"
    yield "sign_changes", value, f"{many} are pushed up by one estimator and down by the other"


def _empty(e: Evidence) -> Measured:
    table, groups = e.table, len(e.table.size)
    tied, single = int(table.tied.sum()), int(table.single.sum())
    missing = int((table.size - table.finite).sum())
    value = share(tied, groups)
    yield (
        "tied_groups",
        value,
        f"{tied:,} of {groups:,} groups ({percent(value)}) have equal rewards and carry no signal",
    )
    value = share(single, groups)
    yield (
        "single_groups",
        value,
        f"{single:,} of {groups:,} groups ({percent(value)}) have fewer than two scored responses",
    )
    value = share(missing, table.size.sum())
    yield "nonfinite_rewards", value, f"{missing:,} rewards ({percent(value)}) are missing, NaN or infinite"


def _stuck(e: Evidence) -> Measured:
    stretch = checks.stuck_grader(e.rollouts, e.table)
    if stretch is not None:
        one = stretch.first_step == stretch.last_step
        where = f"step {stretch.first_step}" if one else f"steps {stretch.first_step} to {stretch.last_step}"
        what = f"{stretch.groups:,} groups in a row ({where}) have the reward {stretch.value:g} for every response"
        chance = f"by chance such a stretch is expected {stretch.chance:.0e} times"
        yield "stuck_grader", share(stretch.groups, len(e.table.size)), f"{what}; {chance}"


def _repeated(e: Evidence) -> Measured:
    again = checks.repeated_groups(e.rollouts, e.table)
    if again.any():
        first = int(e.rollouts.step[again].min())
        what = (
            f"{again.sum():,} groups have the same rewards in the same order as another group (first at step {first})"
        )
        yield "repeated_groups", share(again.sum(), len(again)), what


def _group_ids(e: Evidence) -> Measured:
    mixed, looked = e.mixed
    what = f"{mixed:,} of the {looked:,} groups looked at hold responses to different prompts"
    yield "mixed_prompts", share(mixed, looked), what
    ratio = checks.group_ratio(e.rollouts, e.table)
    if ratio is not None:
        what = f"the groups of a step differ no more than random sets of its responses would (F = {ratio[0]:.2f})"
        yield "groups_alike", (1 - ratio[0]) / ratio[1], what


def _jump(e: Evidence) -> Measured:
    jump = checks.scale_jump(e.rollouts, e.table)
    if jump is not None:
        step, factor = jump
        what = f"from step {step} on the spread of the rewards within groups is {factor:.3g} times what it was before"
        yield "scale_jump", max(factor, 1 / factor), what


def _ratio_side(e: Evidence) -> Measured:
    if e.ratios is None:
        return
    moved, bursts, total = int(e.ratios.moved.sum()), int(e.ratios.bursts.sum()), len(e.ratios.mean)
    value = share(moved, total)
    many = f"{moved:,} of {total:,} responses ({percent(value)})"
    yield "branch_moved", value, f"SoftRoVR would put {many} on another clip branch"
    value = share(bursts, total)
    many = f"{bursts:,} responses ({percent(value)})"
    yield "ratio_bursts", value, f"{many} have a log weight far beyond the run's usual, made by a few tokens"
    value = weight_disagreement(e.ratios)
    yield "weight_disagreement", value, f"SoftRoVR would hide {percent(value)} of what the log weights of the run moved"


MEASURES: tuple[Callable[[Evidence], Measured], ...] = (
    _outliers,
    _empty,
    _stuck,
    _repeated,
    _group_ids,
    _jump,
    _ratio_side,
)
