"""What is wrong with a run, in plain words, each with its reason code, its number and the threshold it passed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.judge import checks, trained
from rovrl.audit.judge.codes import CODES
from rovrl.audit.judge.evidence import Evidence
from rovrl.audit.judge.jump import Jump
from rovrl.audit.measure.ratios import RatioTable
from rovrl.audit.measure.statistics import GroupTable

Measured = Iterator[tuple[str, float, str] | tuple[str, float, str, int]]
"""(reason code, value, the sentence to say if the value is above its threshold, the step it names if it names one)"""


@dataclass(frozen=True)
class Finding:
    """One finding: its code, the measured value, the threshold, what it means and what to do."""

    code: str
    value: float
    threshold: float
    sentence: str
    advice: str
    step: int | None = None
    """The step from which on it holds, where it begins at one."""

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def findings(evidence: Evidence, limit: Mapping[str, float]) -> list[Finding]:
    """Everything above its threshold, the most damaging first."""
    found = [
        Finding(code, value, limit[code], sentence, advice(code, evidence), *step)
        for measure in MEASURES
        for code, value, sentence, *step in measure(evidence)
        if value > limit[code]
    ]
    order = list(CODES)
    return sorted(found, key=lambda finding: order.index(finding.code))


def advice(code: str, evidence: Evidence) -> str:
    """What to do about a finding, for a run that was trained as this one was."""
    known = CODES[code]
    return known.advice_robust if evidence.robust and known.advice_robust else known.advice


def share(part: float, whole: float) -> float:
    """part/whole, 0 of nothing."""
    return float(part) / float(whole) if whole else 0.0


def percent(value: float) -> str:
    """A share for people: 12 %, 0.3 %."""
    return f"{100 * value:.0f} %" if value >= 0.0995 or value == 0 else f"{100 * value:.2g} %"


def mean_lost(table: GroupTable, credit: bool = False, among: NDArray[np.bool_] | None = None) -> float:
    """Mean over untied groups of the contrast lost to dominating rewards, under GRPO or under bounded credit.

    With `among`, what other groups lost counts as 0.
    """
    lost = table.lost_credit if credit else table.lost
    lost = lost if among is None else np.where(among, lost, 0.0)
    return float(np.mean(lost[table.untied])) if table.untied.any() else 0.0


def equal_groups(stretch: checks.Stretch) -> str:
    """A stretch in words: how many groups, at which steps."""
    one = stretch.first_step == stretch.last_step
    where = f"step {stretch.first_step}" if one else f"steps {stretch.first_step} to {stretch.last_step}"
    return f"{stretch.groups:,} groups in a row ({where})"


def changed_spread(jump: Jump) -> str:
    """A change of the scale in words."""
    many = f"{jump.factor:.3g} times what it was before"
    return f"from step {jump.step} on the spread of the rewards within groups is {many}"


def sign_change_share(table: GroupTable) -> float:
    """Share of the responses of untied groups whose advantage changes its sign."""
    return share(table.flips.sum(), table.finite[table.untied].sum())


def weight_disagreement(ratios: RatioTable) -> float:
    """Σ|SoftRoVR - mean| / Σ|mean|, as rovrl.diagnostics.weight_disagreement."""
    return share(np.abs(ratios.soft - ratios.mean).sum(), np.abs(ratios.mean).sum())


def _faults(e: Evidence) -> Measured:
    outside = int(e.expect.outside(e.rollouts.reward).sum()) if e.expect.has_range else 0
    many = f"{outside:,} rewards lie outside the declared range [{e.expect.low:g}, {e.expect.high:g}]"
    yield "out_of_range", share(outside, len(e.rollouts.reward)), many
    found = e.rejected
    many = f"{len(found.row):,} rewards in {len(set(found.group.tolist())):,} of the {found.looked:,} groups looked at"
    why = "they lie apart, and strike groups as evenly as chance would: faults hit anyone, merit depends on the prompt"
    yield "faulty_rewards", share(len(found.row), found.responses), f"{many} would be rejected as faults: {why}"


def _outliers(e: Evidence) -> Measured:
    table = e.table
    hit = e.suspects("dominating_rewards")
    count = int(hit.sum())
    value = share(count, (~table.single).sum())
    what = "hold rewards so far from everything else that they decide the group's statistics"
    crowded = len(e.outliers.groups("crowd"))
    why = (
        f"; in {crowded:,} of them they crowd at one distance, on both sides, where a tail would thin out"
        if crowded
        else ""
    )
    yield "dominating_rewards", value, f"{count:,} groups ({percent(value)}) {what}{why}"
    yield "contrast_lost", *_lost(e)
    flips, value = int(table.flips.sum()), sign_change_share(table)
    many = f"{flips:,} responses ({percent(value)} of those in untied groups)"
    yield "sign_changes", value, f"{many} are pushed up by one estimator and down by the other"


def _lost(e: Evidence) -> tuple[float, str]:
    """The contrast lost in the suspect groups under the run's own method, and the sentence about it."""
    hit = e.suspects("contrast_lost")
    grpo, credit = (mean_lost(e.table, credit=credit, among=hit) for credit in (False, True))
    what = "of the contrast among the other responses"
    if e.robust:
        return (
            credit,
            f"bounded credit, which the run used, lost {percent(credit)} {what}; GRPO would have lost {percent(grpo)}",
        )
    if e.trained_with in trained.NOTHING:
        return 0.0, ""  # nothing is divided by a group's deviation, so no contrast is lost to it
    did = "lost" if e.trained_with in trained.DEVIATION else "would have lost"
    return grpo, f"GRPO's normalisation {did} {percent(grpo)} {what}; bounded credit would have lost {percent(credit)}"


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
    stretch = checks.stuck_grader(e.stretches)
    if stretch is not None:
        what = f"{equal_groups(stretch)} have the reward {stretch.value:g} for every response"
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
    if e.alike is not None:
        what = f"the groups of a step differ no more than random sets of its responses would (F = {e.alike.ratio:.2f})"
        other = f"; dealt out in turn, the rows of a step make groups that do (F = {e.alike.dealt:.2f})"
        yield "groups_alike", e.alike.torn, what + (other if e.alike.dealt > 1 else "")


def _jump(e: Evidence) -> Measured:
    if e.jump is not None and not e.jump.gradual:
        yield "scale_jump", max(e.jump.factor, 1 / e.jump.factor), changed_spread(e.jump), e.jump.step


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
    _faults,
    _outliers,
    _empty,
    _stuck,
    _repeated,
    _group_ids,
    _jump,
    _ratio_side,
)
