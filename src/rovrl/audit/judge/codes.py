"""The reason codes: what each compares, its threshold, and what to do about it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from rovrl.errors import RovrlError


@dataclass(frozen=True)
class Code:
    """One reason code; a value above its threshold is a finding."""

    threshold: float
    compares: str
    advice: str
    advice_robust: str = ""
    """The advice for a run that was trained with a robust advantage already, where it differs."""


CODES: dict[str, Code] = {
    "out_of_range": Code(
        0.0,
        "share of rewards outside the range declared with --expect range=LOW:HIGH",
        "find the grader that returns them, or clamp the reward to its range",
    ),
    "faulty_rewards": Code(
        0.0,
        "share of rewards shown to be faults (docs/faults.md)",
        'look at them, they are listed first; if they are faults, mend the grader or train with faults="reject"; if they are '
        "rare merit at the same rate on every prompt, say so with --expect rare-bonus (or rare-penalty)",
    ),
    "dominating_rewards": Code(
        0.02,
        "share of groups with rewards that stand apart from everything else",
        "look at the worst groups: a broken grader, a unit error? If the range of the reward is known, clamp it, and "
        "declare it with --expect range=LOW:HIGH; if not, a robust advantage does not need to be told",
        "look at the worst groups: a broken grader, a unit error? If the range of the reward is known, clamp it, and "
        "declare it with --expect range=LOW:HIGH",
    ),
    "contrast_lost": Code(
        0.05,
        "mean share of contrast, over untied groups, that the run's advantages lost to such rewards",
        "remove the cause, or train with the robust reward channel (rovrl.integrations.trl or .verl); if credit loses much "
        "too, its bound is wide for these rewards: try --reward credit_bound=adaptive --reward credit_floor=adaptive",
    ),
    "sign_changes": Code(
        0.15,
        "share of responses, in untied groups, that GRPO and robust credit push in opposite directions",
        "the mean and the robust reference disagree: skewed rewards or outliers; look at the groups sorted by sign changes",
    ),
    "tied_groups": Code(
        0.9,
        "share of groups whose rewards are all equal",
        "the task is too easy or too hard for the policy, or the grader returns a constant: mix difficulties",
    ),
    "single_groups": Code(
        0.1,
        "share of groups with fewer than two scored responses",
        "check the group ids (is every response its own group?) and the grader's failures",
    ),
    "nonfinite_rewards": Code(
        0.002,
        "share of responses whose reward is missing, NaN or infinite",
        "find out why the grader fails; a NaN that enters a group's mean makes all its advantages NaN",
    ),
    "stuck_grader": Code(
        0.0,
        "share of groups in a stretch that is tied at one number, beyond chance",
        "look at the grader's log at that step: a time-out, a crashed server or a changed format returns one number",
    ),
    "repeated_groups": Code(
        0.001,
        "share of groups whose rewards, in their order, come again, beyond chance",
        "a batch was trained on or logged twice: check the sampler, the replay buffer and resumed runs",
    ),
    "mixed_prompts": Code(
        0.0,
        "share of the groups looked at that hold different prompts",
        "the group ids are wrong: advantages compare responses to different prompts",
    ),
    "groups_alike": Code(
        3.0,
        "standard errors by which rows dealt out in turn make groups that differ more than after a shuffle within the groups",
        "the group ids are wrong: look for a batch of interleaved rows that was reshaped into groups",
    ),
    "scale_jump": Code(
        3.0,
        "factor by which the rewards' spread changes at one step and stays changed, beyond chance",
        "did the reward, its weights or its normalisation change? Fixed settings (a clip, kappa, a KL weight) no longer fit",
    ),
    "branch_moved": Code(
        0.1,
        "share of responses that SoftRoVR puts on another clip branch",
        "a few tokens decide what is clipped: look at those responses' token log-ratios",
    ),
    "ratio_bursts": Code(
        0.005,
        "share of responses whose log weight is made by a burst of a few tokens",
        "do the sampler's and the trainer's log-probabilities differ? Look at the tokens; SoftRoVR removes most of it",
    ),
    "weight_disagreement": Code(
        0.5,
        "sum of |SoftRoVR - mean| over sum of |mean|",
        "with log-ratios this sparse the few tokens that move are the signal, and SoftRoVR would take the trust region away: "
        "keep the mean, or take smaller steps",
    ),
}
"""In the order of damage, which is the order of findings."""


def thresholds(given: Mapping[str, float] | None = None) -> dict[str, float]:
    """All thresholds, `given` over the defaults; an unknown code is refused with the known ones."""
    unknown = sorted(set(given or {}) - set(CODES))
    if unknown:
        raise RovrlError(f"there is no threshold {', '.join(unknown)}; the codes are {', '.join(CODES)}")
    for code, value in (given or {}).items():
        if not isinstance(value, int | float) or math.isnan(value):
            raise RovrlError(f"--threshold {code} needs a number, not {value}")
    return {code: known.threshold for code, known in CODES.items()} | dict(given or {})
