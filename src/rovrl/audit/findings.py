"""What is wrong with a run, in plain words, each with its reason code, its number and the threshold it passed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rovrl.audit import checks
from rovrl.audit.ratios import RatioTable
from rovrl.audit.rollouts import Rollouts
from rovrl.audit.statistics import GroupTable
from rovrl.errors import RovrlError

THRESHOLDS: dict[str, tuple[float, str]] = {
    "dominating_rewards": (0.02, "share of groups in which a few rewards dominate"),
    "contrast_lost": (
        0.05,
        "mean share of contrast that GRPO's normalisation lost to dominating rewards, over untied groups",
    ),
    "sign_changes": (
        0.15,
        "share of responses, in untied groups, that GRPO and robust credit push in opposite directions",
    ),
    "tied_groups": (0.9, "share of groups whose rewards are all equal"),
    "single_groups": (0.1, "share of groups with fewer than two scored responses"),
    "nonfinite_rewards": (0.002, "share of responses whose reward is missing, NaN or infinite"),
    "stuck_grader": (0.0, "share of groups in a stretch that is tied at one number, beyond chance"),
    "repeated_groups": (0.001, "share of groups whose rewards, in their order, come again, beyond chance"),
    "mixed_prompts": (0.0, "share of the groups looked at that hold different prompts"),
    "groups_alike": (2.0, "standard errors by which groups must differ more than random sets of responses"),
    "scale_jump": (3.0, "factor by which the rewards' spread changes between neighbouring steps"),
    "branch_moved": (0.1, "share of responses that SoftRoVR puts on another clip branch"),
    "ratio_bursts": (0.005, "share of responses whose log weight is made by a burst of a few tokens"),
    "weight_disagreement": (0.5, "sum of |SoftRoVR - mean| over sum of |mean|"),
}
"""Reason code -> (default threshold, what is compared with it). A finding is a value above its threshold (groups_alike: below)."""


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


def thresholds(given: Mapping[str, float] | None = None) -> dict[str, float]:
    """All thresholds, `given` over the defaults; an unknown code is refused with the known ones."""
    unknown = sorted(set(given or {}) - set(THRESHOLDS))
    if unknown:
        raise RovrlError(f"there is no threshold {', '.join(unknown)}; the codes are {', '.join(THRESHOLDS)}")
    return {code: default for code, (default, _) in THRESHOLDS.items()} | dict(given or {})


def findings(evidence: Evidence, limit: Mapping[str, float]) -> list[Finding]:
    """Everything above its threshold, the most damaging first."""
    found = [finding for check in CHECKS for finding in check(evidence, limit)]
    order = list(THRESHOLDS)
    return sorted(found, key=lambda finding: order.index(finding.code))


def share(part: float, whole: float) -> float:
    """part/whole, 0 of nothing."""
    return float(part) / float(whole) if whole else 0.0


def percent(value: float) -> str:
    """A share for people: 12 %, 0.3 %."""
    return f"{100 * value:.0f} %" if value >= 0.0995 or value == 0 else f"{100 * value:.2g} %"


def _dominating(e: Evidence, limit: Mapping[str, float]) -> list[Finding]:
    table = e.table
    hit = table.dominating > 0
    value = share(hit.sum(), (~table.single).sum())
    lost, credit = mean_lost(table), float(np.mean(table.lost_credit[table.untied])) if table.untied.any() else 0.0
    found = []
    if value > limit["dominating_rewards"]:
        found.append(
            Finding(
                "dominating_rewards",
                value,
                limit["dominating_rewards"],
                f"in {hit.sum():,} groups ({percent(value)}) {table.dominating.sum():,} rewards lie so far out that they decide "
                "the group's statistics",
                "look at the worst groups: a broken grader, a unit error, mixed reward scales? If the range of the reward is "
                "known, clamp it; if not, a robust advantage does not need to be told",
            )
        )
    if lost > limit["contrast_lost"]:
        found.append(
            Finding(
                "contrast_lost",
                lost,
                limit["contrast_lost"],
                f"GRPO's normalisation lost {percent(lost)} of the contrast among the other responses to them; bounded credit "
                f"would have lost {percent(credit)}",
                "train with the robust reward channel (rovrl.integrations.trl or .verl), or remove the cause; if credit still loses "
                "much, its bound is wide for these rewards: --reward credit_bound=adaptive --reward credit_floor=adaptive shows more",
            )
        )
    return found


def _signs(e: Evidence, limit: Mapping[str, float]) -> list[Finding]:
    value = sign_change_share(e.table)
    if value <= limit["sign_changes"]:
        return []
    return [
        Finding(
            "sign_changes",
            value,
            limit["sign_changes"],
            f"{e.table.flips.sum():,} responses ({percent(value)} of those in untied groups) are pushed up by one estimator "
            "and down by the other",
            "the mean and the robust reference disagree: skewed rewards or outliers; look at the groups sorted by sign changes",
        )
    ]


def _empty_groups(e: Evidence, limit: Mapping[str, float]) -> list[Finding]:
    table, groups = e.table, len(e.table.size)
    tied, single = share(table.tied.sum(), groups), share(table.single.sum(), groups)
    missing = share((table.size - table.finite).sum(), table.size.sum())
    found = []
    if tied > limit["tied_groups"]:
        sentence = f"{table.tied.sum():,} of {groups:,} groups ({percent(tied)}) have equal rewards and carry no signal"
        advice = "the task is too easy or too hard for the policy, or the grader returns a constant: mix difficulties"
        found.append(Finding("tied_groups", tied, limit["tied_groups"], sentence, advice))
    if single > limit["single_groups"]:
        sentence = (
            f"{table.single.sum():,} of {groups:,} groups ({percent(single)}) have fewer than two scored responses"
        )
        advice = "check the group ids (is every response its own group?) and the grader's failures"
        found.append(Finding("single_groups", single, limit["single_groups"], sentence, advice))
    if missing > limit["nonfinite_rewards"]:
        count = int((table.size - table.finite).sum())
        sentence = f"{count:,} rewards ({percent(missing)}) are missing, NaN or infinite"
        advice = "find out why the grader fails: a NaN in a group's mean makes every advantage of the group NaN, unless it is left out"
        found.append(Finding("nonfinite_rewards", missing, limit["nonfinite_rewards"], sentence, advice))
    return found


def _stuck(e: Evidence, limit: Mapping[str, float]) -> list[Finding]:
    stretch = checks.stuck_grader(e.rollouts, e.table)
    value = share(stretch.groups, len(e.table.size)) if stretch else 0.0
    if stretch is None or value <= limit["stuck_grader"]:
        return []
    where = (
        f"step {stretch.first_step}"
        if stretch.first_step == stretch.last_step
        else f"steps {stretch.first_step} to {stretch.last_step}"
    )
    return [
        Finding(
            "stuck_grader",
            value,
            limit["stuck_grader"],
            f"{stretch.groups:,} groups in a row ({where}) have the reward {stretch.value:g} for every response; by chance such a "
            f"stretch is expected {stretch.chance:.0e} times",
            "look at the grader's log at that step: a time-out, a crashed server or a changed format returns one number",
        )
    ]


def _repeated(e: Evidence, limit: Mapping[str, float]) -> list[Finding]:
    again = checks.repeated_groups(e.table)
    value = share(again.sum(), len(again))
    if value <= limit["repeated_groups"]:
        return []
    steps = np.unique(e.rollouts.step[again])
    return [
        Finding(
            "repeated_groups",
            value,
            limit["repeated_groups"],
            f"{again.sum():,} groups have the same rewards in the same order as another group (first at step {steps[0]})",
            "a batch was trained on or logged twice: check the sampler, the replay buffer and resumed runs",
        )
    ]


def _group_ids(e: Evidence, limit: Mapping[str, float]) -> list[Finding]:
    found = []
    mixed, looked = e.mixed
    value = share(mixed, looked)
    if value > limit["mixed_prompts"]:
        sentence = f"{mixed:,} of the {looked:,} groups looked at hold responses to different prompts"
        advice = "the group ids are wrong: advantages compare responses to different prompts"
        found.append(Finding("mixed_prompts", value, limit["mixed_prompts"], sentence, advice))
    ratio = checks.group_ratio(e.rollouts, e.table)
    if ratio is not None and (ratio[0] - 1) / ratio[1] < limit["groups_alike"]:
        sentence = f"groups differ no more than random sets of responses would (F = {ratio[0]:.2f})"
        advice = "either all prompts are equally hard, or the group ids are wrong (a reshape of interleaved rows?)"
        found.append(Finding("groups_alike", (ratio[0] - 1) / ratio[1], limit["groups_alike"], sentence, advice))
    return found


def _jump(e: Evidence, limit: Mapping[str, float]) -> list[Finding]:
    jump = checks.scale_jump(e.rollouts, e.table)
    if jump is None or max(jump[1], 1 / jump[1]) <= limit["scale_jump"]:
        return []
    step, factor = jump
    return [
        Finding(
            "scale_jump",
            max(factor, 1 / factor),
            limit["scale_jump"],
            f"from step {step} on the spread of the rewards within groups is {factor:.3g} times what it was before",
            "did the reward, its weights or its normalisation change? Fixed settings (a clip, kappa, a KL weight) no longer fit",
        )
    ]


def _ratio_side(e: Evidence, limit: Mapping[str, float]) -> list[Finding]:
    ratios = e.ratios
    if ratios is None:
        return []
    moved, bursts = float(np.mean(ratios.moved)), float(np.mean(ratios.bursts))
    disagreement = weight_disagreement(ratios)
    found = []
    if moved > limit["branch_moved"]:
        sentence = f"SoftRoVR would put {ratios.moved.sum():,} of {len(ratios.mean):,} responses ({percent(moved)}) on another clip branch"
        advice = "a few tokens decide what is clipped: look at those responses' token log-ratios"
        found.append(Finding("branch_moved", moved, limit["branch_moved"], sentence, advice))
    if bursts > limit["ratio_bursts"]:
        sentence = f"{ratios.bursts.sum():,} responses ({percent(bursts)}) have a log weight far beyond the run's usual, made by a few tokens"
        advice = "a mismatch between the sampler's and the trainer's log-probabilities? Look at the tokens; SoftRoVR removes most of it"
        found.append(Finding("ratio_bursts", bursts, limit["ratio_bursts"], sentence, advice))
    if disagreement > limit["weight_disagreement"]:
        sentence = f"SoftRoVR would hide {percent(disagreement)} of what the log weights of the run moved"
        advice = (
            "with log-ratios this sparse the few tokens that move are the signal: SoftRoVR would take the trust region away; keep "
            "the mean, or take smaller steps"
        )
        found.append(Finding("weight_disagreement", disagreement, limit["weight_disagreement"], sentence, advice))
    return found


def mean_lost(table: GroupTable) -> float:
    """Mean over untied groups of the contrast lost to dominating rewards."""
    return float(np.mean(table.lost[table.untied])) if table.untied.any() else 0.0


def sign_change_share(table: GroupTable) -> float:
    """Share of the responses of untied groups whose advantage changes its sign."""
    return share(table.flips.sum(), table.finite[table.untied].sum())


def weight_disagreement(ratios: RatioTable) -> float:
    """Σ|SoftRoVR - mean| / Σ|mean|, rovrl.diagnostics.weight_disagreement."""
    return share(np.abs(ratios.soft - ratios.mean).sum(), np.abs(ratios.mean).sum())


CHECKS: tuple[Callable[[Evidence, Mapping[str, float]], list[Finding]], ...] = (
    _dominating,
    _signs,
    _empty_groups,
    _stuck,
    _repeated,
    _group_ids,
    _jump,
    _ratio_side,
)
