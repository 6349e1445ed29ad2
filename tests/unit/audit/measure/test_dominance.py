"""What one sort says about every group, beside plain NumPy group by group."""

import numpy as np
import pytest

import audit_dumps
from rovrl.audit import audit
from rovrl.audit.arrays import LEAST, first_by, pieces, ranked
from rovrl.audit.measure.dominance import Ordered


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
        found = Ordered.of(rewards)
        size = np.abs(rewards).max(1)
        np.testing.assert_array_equal(found.ordered[0], rewards.min(1), name)
        np.testing.assert_array_equal(found.ordered[-1], rewards.max(1), name)
        assert (np.abs(found.median - np.median(rewards, axis=1)) <= 1e-15 * size).all(), name
        assert (np.abs(found.mean - rewards.mean(1)) <= 1e-14 * size).all(), name
        low, wide = rewards.min(1, keepdims=True), np.ptp(rewards, axis=1)
        expected = ((rewards - low) / np.where(wide > 0, wide, 1.0)[:, None]).std(1, ddof=1) * wide
        np.testing.assert_allclose(found.deviation[0], expected, rtol=1e-12, err_msg=name)
        for k, row in enumerate(np.sort(rewards, axis=1)):
            assert any(found.core[k] == pytest.approx(c) for c in core_by_search(row, min(n // 4, 16))), (name, k)


@pytest.mark.parametrize("exponent", [-900, 0, 900])
def test_rewards_from_far_below_to_far_above_one_have_the_same_order(exponent):
    rewards = audit_dumps.rewards(50, 16)
    found, plain = Ordered.of(rewards * 2.0**exponent), Ordered.of(rewards)
    np.testing.assert_array_equal(found.deviation, plain.deviation * 2.0**exponent)
    np.testing.assert_array_equal(found.low, plain.low)


def test_the_deviation_of_rewards_at_the_end_of_the_range_of_numbers_is_a_number():
    rewards = np.array([[1e308, -1e308, 1e308, -1e308], [1e308, 1e308, 1e308, 1e308], [0.0, 1.0, 0.0, 1e308]])
    np.testing.assert_allclose(Ordered.of(rewards).deviation[0], [2 / 3**0.5 * 1e308, 0.0, 5e307], rtol=1e-12)


def test_huge_rewards_in_one_group_leave_the_references_of_the_others_as_they_are(tmp_path):
    rewards = audit_dumps.rewards(50, 16, spikes=0.0)
    alone = audit(audit_dumps.table(tmp_path / "a.parquet", rewards)).groups
    rewards[7, :8], rewards[8] = 1.7e308, 1e200 * rewards[8]
    beside = audit(audit_dumps.table(tmp_path / "b.parquet", rewards)).groups
    others = np.delete(np.arange(50), [7, 8])
    np.testing.assert_allclose(alone.reference[others], beside.reference[others], rtol=1e-12)
    assert np.isfinite(beside.reference).all()
    assert np.isfinite(beside.nu).all()


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
