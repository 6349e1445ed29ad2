"""The error rate: how often verdicts that depend on their prompts, be it slightly, are taken for faults."""

import numpy as np
import pytest

from rovrl.faults.find import posterior
from rovrl.faults.posterior import CERTAIN
from rovrl.robust.outliers.bulk import SortedGroups
from rovrl.robust.outliers.evidence import MERIT, RARE

DRAWS = 100
DECLARED = 0.05
SLIGHT, ORDINARY = MERIT[:2]
"""The correlation of verdicts on prompts chosen for their difficulty, and the least of ordinary ones."""


def taken_for_faults(rng, prompts, group, rate, steps, correlation, malformed) -> bool:
    """Whether any right answer is rejected, at rates with this intraclass correlation, beside a bonus.

    Malformed answers are scored -1, on every prompt with the same chance: they are like faults.
    """
    correlation = correlation * min(1, RARE * rate / (1 - rate))
    total = (1 - correlation) / correlation
    right = rng.random((prompts, group)) < rng.beta(rate * total, (1 - rate) * total, (prompts, 1))
    right = np.where(rng.random(right.shape) < malformed, -1, right)
    rewards = right + 0.05 * rng.random(right.shape)
    groups = SortedGroups.of(rewards.ravel(), np.repeat(np.arange(prompts), group), prompts)
    found = posterior(groups, np.arange(prompts) * steps // prompts)
    return bool((found.probability > CERTAIN)[right.ravel() >= 0].any())


def share_taken(prompts, group, rate, steps=1, correlation=ORDINARY, malformed=0.0) -> float:
    rng = np.random.default_rng(5)
    taken = (taken_for_faults(rng, prompts, group, rate, steps, correlation, malformed) for _ in range(DRAWS))
    return float(np.mean(list(taken)))


def at_most(rate) -> float:
    """Three standard errors above a rate."""
    return rate + 3 * (rate * (1 - rate) / DRAWS) ** 0.5


@pytest.mark.parametrize(
    ("prompts", "group", "rate", "steps"),
    [
        (256, 4, 0.2, 1),
        (256, 4, 0.35, 1),
        (256, 4, 0.5, 1),
        (256, 8, 0.1, 1),
        (64, 16, 0.1, 1),
        (16, 16, 0.2, 1),
        (256, 16, 0.05, 16),
    ],
)
def test_ordinary_verdicts_are_taken_for_faults_no_more_often_than_declared(prompts, group, rate, steps):
    assert share_taken(prompts, group, rate, steps) <= at_most(DECLARED)


@pytest.mark.parametrize(
    ("prompts", "group", "rate", "steps"),
    [
        (256, 4, 0.1, 1),
        (256, 4, 0.35, 1),
        (256, 8, 0.1, 1),
        (256, 8, 0.3, 1),
        (48, 16, 0.1, 1),
        (48, 16, 0.3, 1),
        (64, 16, 0.1, 4),
    ],
)
def test_verdicts_at_rates_that_hardly_vary_are_taken_for_faults_no_more_often_than_declared(
    prompts, group, rate, steps
):
    assert share_taken(prompts, group, rate, steps, SLIGHT) <= at_most(DECLARED)


@pytest.mark.parametrize("correlation", [ORDINARY, SLIGHT])
def test_very_rare_verdicts_in_a_window_of_small_steps_are_taken_for_faults_no_more_often_either(correlation):
    """A step with one or two right answers says little about its rate."""
    assert share_taken(512, 8, 0.02, 32, correlation) <= at_most(DECLARED)


@pytest.mark.parametrize(("prompts", "group"), [(128, 8), (256, 8), (32, 16)])
def test_one_malformed_answer_in_a_hundred_on_the_other_side_does_not_change_that(prompts, group):
    assert share_taken(prompts, group, 0.1, correlation=SLIGHT, malformed=0.012) <= at_most(DECLARED)


@pytest.mark.parametrize(("size", "found"), [(100.0, True), (1.0, False)])
def test_hits_on_one_side_are_shown_by_fewer_groups_if_they_are_too_far_out_for_right_answers(size, found):
    """240 groups of 8, as in the notebook of an audited run: 100 is 2,000 units of the others, 1 is 20."""
    rng = np.random.default_rng(3)
    rewards = rng.normal(0, 0.05, (240, 8)) + size * (rng.random((240, 8)) < 0.032)
    groups = SortedGroups.of(rewards.ravel(), np.repeat(np.arange(240), 8), 240)
    probability = posterior(groups, np.zeros(240, int)).probability.max()
    assert probability > 0.9 if found else probability < 0.5
