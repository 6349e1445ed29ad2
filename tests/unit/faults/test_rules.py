"""The rules that protect merit, one by one: what each allows and refuses on its own."""

import numpy as np
import pytest

from rovrl.faults.candidates import Candidates, Side
from rovrl.faults.nearest import least_distance
from rovrl.faults.scattered import Scattered
from rovrl.faults.shown import _dispersed, _mask, shown
from rovrl.robust.outliers.bulk import SortedGroups
from rovrl.robust.outliers.dispersion import Design


def design_of(groups, size=16):
    return Design(np.full(groups, size), np.zeros(groups, int))


def candidates(design):
    return Candidates(None, None, design, np.zeros(0), np.zeros(0, int), level=0.05, remote=np.inf)


def sorted_groups(rewards):
    return SortedGroups.of(rewards.ravel(), np.repeat(np.arange(len(rewards)), rewards.shape[1]), len(rewards))


@pytest.mark.parametrize(("size", "units"), [(16, 4.0), (8, 4.0), (4, 12.0)])
def test_nothing_is_a_fault_within_four_units_or_twelve_in_groups_of_fewer_than_eight(size, units):
    rewards = np.random.default_rng(0).normal(0, 1, (256, size))
    groups = sorted_groups(rewards)
    residual = groups.residual(groups.median(np.zeros_like(groups.size), groups.size))
    assert least_distance(groups, residual, 0.7, design_of(256, size)) == pytest.approx(0.7 * units)


def counts_with_excess(share, groups=2048):
    """Hits of a tenth of sixteen members, with about so many pairs more than chance makes."""
    total = 0.9 / (0.1 * share) - 1  # of a beta-binomial law: E T is larger by a share of ρ(1 - π)/π
    for seed in range(200):
        rng = np.random.default_rng(seed)
        counts = rng.binomial(16, rng.beta(0.1 * total, 0.9 * total, groups)).astype(float)
        tested = candidates(design_of(groups))
        expected = tested.chance(counts)
        if abs((counts * (counts - 1)).sum() / 2 / expected.mean - 1 - share) < 0.01:
            return tested, counts, expected
    raise AssertionError("no such draw")


@pytest.mark.parametrize(("share", "opposite", "excused"), [(0.12, 0.2, True), (0.12, 0.02, False), (0.18, 0.2, False)])
def test_an_excess_of_pairs_is_excused_up_to_fifteen_per_cent_and_only_for_misplaced_centers(share, opposite, excused):
    tested, counts, expected = counts_with_excess(share)
    assert tested.chance_of(counts) < 1e-3
    assert tested.even_not_ordinary(counts, expected, opposite=lambda: opposite * counts) == excused


@pytest.mark.parametrize(("share", "meet"), [(0.6, True), (0.4, False)])
def test_opposite_hits_meet_if_they_share_half_as_many_groups_as_chance_makes_them(share, meet):
    counts, opposite = np.zeros(100), np.zeros(100)
    counts[:50] = 1
    tested = candidates(design_of(100))
    expected = tested.meetings(counts, counts)
    both = round(share * expected)
    opposite[50 - both : 100 - both] = 1
    assert expected > 20
    assert (counts * opposite).sum() == both
    assert tested.meets(counts, opposite) == meet


def test_no_more_than_three_quarters_of_a_group_are_rejected():
    groups = sorted_groups(np.arange(48.0).reshape(3, 16))
    low, high = np.array([12, 13, 0]), np.array([16, 16, 15])
    assert _mask(groups, low, high).reshape(3, 16).sum(-1).tolist() == [12, 0, 1]


@pytest.mark.parametrize(("p", "share", "kept"), [(5e-4, 0.1, True), (2e-3, 0.1, False), (5e-4, 0.5, False)])
def test_what_is_evidently_dispersed_about_the_last_centers_is_kept(p, share, kept):
    design = design_of(100)
    assert _dispersed(design, Side(1.0, int(share * 1600), 1.5, p), Side()) == kept


def test_right_answers_as_rare_on_every_prompt_are_kept_where_groups_without_contrast_were_dropped():
    """Dynamic sampling: by chance one group in five would have none. Of all groups, nothing tells them from faults."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        right = rng.random((400, 16)) < 0.1
        rewards = right + 0.05 * rng.random(right.shape)
        mixed = right.any(-1)
        for chosen, rejected in ((mixed, False), (slice(None), True)):
            groups = sorted_groups(rewards[chosen])
            assert bool(shown(groups, np.zeros(len(groups.size), int))[0].any()) == rejected


def test_far_rewards_that_depend_on_the_prompt_a_little_are_not_scattered_by_chance():
    """On both sides, at a third of the ordinary correlation: told from ordinary verdicts, but no chance either."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        rewards, total = rng.normal(0, 0.1, (1024, 16)), 19
        for rate, scattered in ((0.1, True), (rng.beta(0.1 * total, 0.9 * total, (1024, 1)), False)):
            far = rewards + 5 * rng.choice([-1, 1], rewards.shape) * (rng.random(rewards.shape) < rate)
            test = Scattered(sorted_groups(far), np.zeros(1024, int))
            assert test(2.0) == scattered
