"""The safeguarded solver and the redescending centers beside it."""

import itertools
import math

import numpy as np
import pytest
import torch

import reference as ref
from rovrl.robust.redescending import graduated_schedule, redescending_center
from rovrl.robust.score import psi, rho
from rovrl.robust.solve import m_root, masked_median


def test_far_clusters_and_heavy_tails_do_not_defeat_newton():
    """Where Newton leaves the bracket: two clusters many widths apart, one straggler, mixed magnitudes."""
    rows = [[0.0] * left + [gap] * (8 - left) for gap in (10.0, 1e3, 1e5) for left in (1, 2, 3, 5, 6, 7)]
    rows += [[0.0] * 3 + [gap / 3] + [gap] * 4 for gap in (10.0, 1e3, 1e5)]
    rows += [[10.0**k for k in range(8)], [-(10.0**k) for k in range(8)]]
    x = np.array(rows)
    for width in (1e-3, 1.0, 50.0):
        ours = m_root(torch.as_tensor(x), width).numpy()
        expected = ref.m_centers(x, width)
        assert (
            np.abs(ours - expected) <= 1e-11 * (1 + np.abs(expected)) + 1e3 * ref.conditioning(x, expected, width)
        ).all()


def test_each_row_may_have_its_own_width():
    x = np.random.default_rng(0).normal(size=(5, 9))
    widths = [0.1, 0.5, 1.0, 2.0, 10.0]
    ours = m_root(torch.as_tensor(x), torch.tensor(widths, dtype=torch.float64))
    for k, width in enumerate(widths):
        assert abs(ours[k].item() - ref.m_center(x[k], width)) < 1e-12


def test_an_empty_row_is_zero_and_a_non_finite_one_nan_without_touching_the_others():
    x = torch.tensor(
        [[1.0, 2.0, 4.0], [1.0, math.nan, 2.0], [0.0, math.inf, 1.0], [3.0, 3.0, 3.0]], dtype=torch.float64
    )
    mask = torch.ones(4, 3, dtype=torch.bool)
    mask[3] = False
    u = m_root(x, 1.0, mask)
    assert u[0].item() == pytest.approx(ref.m_center([1.0, 2.0, 4.0]), abs=1e-14)
    assert u[1:3].isnan().all()
    assert u[3] == 0
    assert m_root(torch.zeros(2, 0), 1.0).tolist() == [0.0, 0.0]


def test_differences_that_overflow_do_not():
    x = torch.tensor([[-1.7e308, 1.7e308, 1.0], [1.7e308] * 3, [-1.7e308, 0.0, 0.0]], dtype=torch.float64)
    u = m_root(x, 1.0)
    assert torch.isfinite(u).all()
    assert u[1] == 1.7e308
    assert abs(u[0].item() - 1.0) < 1e-9
    single = m_root(torch.tensor([[-3e38, 3e38, 1.0]], dtype=torch.float32), 1.0)
    assert abs(single.item() - 1.0) < 1e-5


def test_the_root_does_not_carry_a_gradient():
    assert not m_root(torch.zeros(3, 4, requires_grad=True), 1.0).requires_grad


def test_the_masked_median_is_the_midpoint_median_of_what_is_kept():
    rng = np.random.default_rng(1)
    x, mask = rng.normal(size=(200, 7)), rng.random((200, 7)) < 0.6
    ours = masked_median(torch.as_tensor(np.where(mask, x, 99.0)), torch.as_tensor(mask))
    for k in range(200):
        expected = ref.midpoint_median(x[k][mask[k]]) if mask[k].any() else 0.0
        assert ours[k].item() == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("shape", [0.5, 0.0, -2.0, -math.inf])
def test_a_redescending_center_is_a_stationary_minimum_near_the_bulk(shape):
    x = np.random.default_rng(2).normal(size=(60, 15))
    x[:, 0] = 1e6  # a convex center would still feel it; a redescending one forgets it
    t = torch.as_tensor(x)
    u = redescending_center(t, shape, 1.0)
    score = psi(t - u.unsqueeze(-1), 1.0, shape).sum(-1)
    assert score.abs().max() < 1e-8
    loss = rho(t - u.unsqueeze(-1), 1.0, shape).sum(-1)
    for step in (-1e-3, 1e-3):
        assert (rho(t - (u + step).unsqueeze(-1), 1.0, shape).sum(-1) >= loss - 1e-12).all()
    assert (u.abs() < 2).all()


def test_redescending_centers_follow_shifts_and_masks():
    x = torch.as_tensor(np.random.default_rng(3).normal(size=(20, 9)))
    u = redescending_center(x, 0.0)
    torch.testing.assert_close(redescending_center(x + 8.0, 0.0), u + 8.0, atol=1e-9, rtol=0)
    mask = torch.ones_like(x, dtype=torch.bool)
    mask[:, 4] = False
    left = torch.cat([x[:, :4], x[:, 5:]], -1)
    torch.testing.assert_close(
        redescending_center(x, 0.0, mask=mask), redescending_center(left, 0.0), atol=1e-10, rtol=0
    )


def test_the_graduated_schedule_descends_from_below_one_to_the_shape():
    for shape in (0.5, 0.0, -2.0, -math.inf):
        stages = graduated_schedule(shape)
        assert stages[-1] == shape
        assert all(a > b for a, b in itertools.pairwise(stages))
        assert stages[0] < 1


@pytest.mark.parametrize("shape", [1.0, 1.5, 2.0, math.nan])
def test_convex_shapes_are_refused_under_the_redescending_name(shape):
    with pytest.raises(ValueError, match="shape"):
        redescending_center(torch.zeros(3), shape)
    with pytest.raises(ValueError, match="schedule"):
        redescending_center(torch.zeros(3), 0.0, schedule=(0.5, 0.2))


def test_no_guarantee_takes_a_shape():
    """The convex theorems are not transferred to redescending shapes (app:implementation)."""
    import inspect

    import rovrl

    for name in dir(rovrl.guarantees):
        function = getattr(rovrl.guarantees, name)
        if inspect.isfunction(function):
            assert not {"shape", "alpha"} & set(inspect.signature(function).parameters), name
