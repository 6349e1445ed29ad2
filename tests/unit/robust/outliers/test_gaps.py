"""Where a tail is cut off: how many values a gap of each width takes, and that heavy honest tails leave none."""

import numpy as np
import pytest

from rovrl.robust.outliers.gaps import gaps


def beyond(hits, ratio):
    """So many values, the smallest at 1, and 400 below 1/ratio."""
    return np.concatenate([np.linspace(2, 1, hits), np.linspace(1 / ratio, 0.001, 400)])


@pytest.mark.parametrize(("ratio", "least"), [(13.0, 6), (6.0, 9), (2.6, 16)])
def test_a_gap_is_shown_by_as_many_values_as_a_pareto_tail_of_index_one_half_leaves_it_with_a_chance_of_a_thousandth(
    ratio, least
):
    """A share of 1 - w^-1/2 of its values lies in the gap: with w = 12, 5 and 2.5 it takes log 0.001/log w^-1/2 of them."""
    width = max(w for w in (1.6, 2.5, 5.0, 12.0) if w < ratio)
    assert least == np.ceil(np.log(0.001) / np.log(width**-0.5))
    for hits, found in ((least - 1, False), (least, True)):
        assert (gaps(beyond(hits, ratio), 0.5, 200) == [1.0]) == found


@pytest.mark.parametrize("index", [0.5, 1.0, 3.0])
def test_honest_tails_hardly_ever_leave_a_gap(index):
    """Of 300 samples with 24 thresholds each; the declared chance is a thousandth for each threshold."""
    rng = np.random.default_rng(0)
    tails = (np.sort(1 + rng.pareto(index, 2000))[::-1] for _ in range(300))
    assert np.mean([bool(gaps(tail, 4.0, 1000)) for tail in tails]) < 0.05
