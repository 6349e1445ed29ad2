"""What one sort says about every group, beside plain NumPy group by group."""

import numpy as np
import pytest

import audit_dumps
from rovrl.audit.arrays import LEAST, NUMBERS, first_by, pieces, ranked
from rovrl.audit.measure import dominance
from rovrl.audit.measure.order import order_statistics
from rovrl.audit.measure.reference import references, whole_scales
from rovrl.config import RewardChannel
from rovrl.partition import partition


def worlds(n: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(n)
    noise = generator.normal(size=(300, n))
    return {
        "scores": audit_dumps.rewards(300, n, spikes=0.05, seed=n),
        "0/1": (generator.random((300, n)) < 0.2).astype(float),
        "grades": generator.integers(0, 5, (300, n)).astype(float),
        "offset": 1e6 + noise,
        "heavy": generator.standard_t(1, (300, n)),
        "tiny": 1e-200 * noise,
        "huge": 1e200 * noise,
    }


def core_by_search(ordered: np.ndarray, removed: int) -> set[float]:
    """The ranges of the windows without `removed` rewards that have the least variance, up to rounding."""
    size = np.abs(ordered).max() or 1.0
    windows = [ordered[k : len(ordered) - removed + k] for k in range(removed + 1)]
    spread = [np.var(window / size) for window in windows]
    return {float(w[-1] - w[0]) for w, v in zip(windows, spread, strict=True) if v <= min(spread) * (1 + 1e-9) + 1e-25}


@pytest.mark.parametrize("n", [2, 3, 4, 7, 16, 33, 80])
def test_ends_means_deviations_and_cores_are_those_of_plain_numpy(n):
    for name, rewards in worlds(n).items():
        found = order_statistics(rewards)
        size = np.abs(rewards).max(1)
        np.testing.assert_array_equal(found.lowest, rewards.min(1), name)
        np.testing.assert_array_equal(found.highest, rewards.max(1), name)
        assert (np.abs(found.median - np.median(rewards, axis=1)) <= 1e-15 * size).all(), name
        assert (np.abs(found.mean - rewards.mean(1)) <= 1e-14 * size).all(), name
        low, wide = rewards.min(1, keepdims=True), np.ptp(rewards, axis=1)
        expected = ((rewards - low) / np.where(wide > 0, wide, 1.0)[:, None]).std(1, ddof=1) * wide
        np.testing.assert_allclose(found.deviation, expected, rtol=1e-12, err_msg=name)
        if name not in ("tiny", "huge"):  # their squares leave the range of numbers: the first window counts
            for k, row in enumerate(np.sort(rewards, axis=1)):
                assert any(found.core[k] == pytest.approx(c) for c in core_by_search(row, min(n // 4, 16))), (name, k)


@pytest.mark.parametrize("n", [4, 8, 16, 40])
def test_no_reward_dominates_where_removing_a_quarter_does_not_halve_the_deviation(n):
    for name, rewards in worlds(n).items():
        suspect, trim = order_statistics(rewards).suspect, dominance.trims(rewards)
        count, _, _ = dominance.dominating(trim, np.full(len(rewards), 1e-300))
        own = dominance.own_spread(trim)
        plain = np.ptp(rewards, axis=1) / dominance.normal_range(n)
        assert not count[~suspect].any(), name
        same = ~suspect & (plain > 0)
        np.testing.assert_array_equal(own[same], plain[same], name)
        assert name != "scores" or 0 < suspect.sum() < len(suspect)


def test_groups_beyond_the_first_piece_are_computed_like_the_first():
    rewards, channel = audit_dumps.rewards(300, 16, spikes=0.05), RewardChannel()
    many = np.tile(rewards, (2 * NUMBERS // 16 // 300 + 1, 1))
    assert len(list(pieces(len(many), 16))) > 2
    blocks = partition(16, channel)[0]
    for compute in (
        lambda x: references(x, blocks, channel)[0],
        lambda x: references(x, blocks, channel)[1],
        lambda x: whole_scales(x, channel),
        lambda x: order_statistics(x).deviation,
        lambda x: dominance.trims(x).deviation[-1],
    ):
        np.testing.assert_allclose(
            compute(many).reshape(-1, 300), np.tile(compute(rewards), (len(many) // 300, 1)), rtol=1e-13
        )


def test_huge_rewards_in_one_group_leave_the_scales_of_the_others_as_they_are():
    rewards, channel = audit_dumps.rewards(50, 16, spikes=0.0), RewardChannel()
    blocks = partition(16, channel)[0]
    alone = references(rewards, blocks, channel)
    rewards[7, :8], rewards[8] = 1.7e308, 1e200 * rewards[8]
    beside = references(rewards, blocks, channel)
    others = np.delete(np.arange(50), [7, 8])
    for one, other in zip(alone, beside, strict=True):
        np.testing.assert_allclose(one[others], other[others], rtol=1e-12)
    assert np.isfinite(beside[1]).all()


@pytest.mark.parametrize(("columns", "rows"), [(1, 1), (10, 3), (LEAST + 1, 10**6), (100_000, 16)])
def test_pieces_cover_every_column_once(columns, rows):
    covered = np.concatenate([np.arange(columns)[part] for part in pieces(columns, rows)])
    np.testing.assert_array_equal(covered, np.arange(columns))


def test_ranks_of_ordered_and_of_shuffled_numbers_are_those_of_unique():
    generator = np.random.default_rng(0)
    for values in (
        np.sort(generator.integers(0, 9, 50)),
        generator.integers(0, 9, 50),
        np.empty(0, int),
        np.array([3]),
    ):
        for found, expected in zip(ranked(values), np.unique(values, return_inverse=True), strict=True):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("count", [0, 1, 3, 10, 199, 200, 500])
def test_the_first_by_several_keys_are_those_of_a_whole_sort(count):
    generator = np.random.default_rng(count)
    keys = [generator.integers(0, 4, 200), generator.integers(0, 4, 200), generator.normal(size=200).round(1)]
    np.testing.assert_array_equal(first_by(keys, count), np.lexsort(keys[::-1])[:count])
