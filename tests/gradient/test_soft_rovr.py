"""Three ways to the same derivative of SoftRoVR: implicit, unrolled, finite differences of the independent reference."""

import numpy as np
import pytest
import torch

import reference as ref
import rovrl
from rovrl import RatioChannel
from rovrl.weight import token_scale
from samples import scattered, token_rows

MODES = ["implicit", "unrolled"]
EXACT = {"regularizer": 0.0}


def derivative(x, mask, channel):
    x = x.detach().clone().requires_grad_()
    rovrl.soft_rovr(x, mask, channel).sum().backward()
    return x.grad


def smooth_rows(count=24, seed=0, scale=0.05):
    """Responses without exact ties, 4 to 40 tokens."""
    rng = np.random.default_rng(seed)
    return [rng.normal(size=int(n)) * scale for n in rng.integers(4, 41, count)]


def test_gradcheck_passes_in_float64(gradient):
    rng = np.random.default_rng(1)
    x, mask = scattered([rng.normal(size=n) * 0.1 for n in (3, 9, 13)])
    x.requires_grad_()
    channel = RatioChannel(gradient=gradient, iterations=10, **EXACT)
    assert torch.autograd.gradcheck(lambda v: rovrl.soft_rovr(v, mask, channel), (x,), atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.1, "score_width": 0.1}, {"num_levels": 4, "num_blocks": 3}])
def test_the_gradient_is_the_finite_difference_of_the_independent_reference(gradient, settings):
    rows = smooth_rows(4, seed=2)
    theirs = {"temperature": "gamma", "score_width": "c", "num_levels": "K", "num_blocks": "num_blocks"}
    theirs = {theirs[k]: v for k, v in settings.items()}
    h = 1e-6
    for row in rows:
        x = torch.as_tensor(row)
        ours = derivative(x, None, RatioChannel(gradient=gradient, **EXACT, **settings)).numpy()
        probes = [row + s * h * np.eye(len(row))[t] for t in range(len(row)) for s in (1, -1)]
        values = ref.soft_rovrs(probes, **theirs).reshape(-1, 2)
        # rounding of the reference 1e-16 / h, curvature h^2 / gamma^2: both below 1e-7
        np.testing.assert_allclose(ours, (values[:, 0] - values[:, 1]) / (2 * h), atol=2e-7)


def test_implicit_and_unrolled_gradients_agree_in_float64():
    x, mask = scattered(token_rows(200, seed=3))
    implicit = derivative(x, mask, RatioChannel(gradient="implicit"))
    unrolled = derivative(x, mask, RatioChannel(gradient="unrolled"))
    torch.testing.assert_close(implicit, unrolled, atol=1e-8, rtol=1e-6)


def test_implicit_and_unrolled_gradients_agree_in_float32():
    x, mask = scattered(token_rows(200, seed=3), dtype=torch.float32)
    exact = derivative(x.double(), mask, RatioChannel())
    for gradient in MODES:
        ours = derivative(x, mask, RatioChannel(gradient=gradient))
        assert ours.dtype == torch.float32
        # the largest entries are about 0.3; the logistic's slope 1 / (4 gamma) amplifies float32's rounding
        assert (ours.double() - exact).abs().max() < 2e-4


def test_masked_tokens_have_exactly_zero_gradient_even_when_they_hold_nan(gradient):
    for filler in (0.0, float("nan"), float("inf"), 1e30):
        x, mask = scattered(token_rows(60, seed=4), filler=filler)
        grad = derivative(x, mask, RatioChannel(gradient=gradient))
        assert (grad[~mask] == 0).all()
        assert torch.isfinite(grad).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_constant_tokens_have_finite_gradients_that_sum_to_one(gradient, dtype):
    """sqrt(b_b) has an infinite slope at zero spread: 12.5 % of real responses are there."""
    for T in (1, 4, 8, 9, 40):
        for value in (0.0, 0.25):
            grad = derivative(torch.full((2, T), value, dtype=dtype), None, RatioChannel(gradient=gradient))
            assert torch.isfinite(grad).all()
            assert (grad.sum(-1) - 1).abs().max() < 1e-5
            assert (grad >= -1e-6).all()


def test_a_response_without_tokens_gets_zero_gradient(gradient):
    x = torch.ones(3, 6, dtype=torch.float64)
    mask = torch.tensor([[True] * 6, [False] * 6, [True, False] * 3])
    grad = derivative(x, mask, RatioChannel(gradient=gradient))
    assert (grad[1] == 0).all()
    assert torch.isfinite(grad).all()


def test_extreme_tokens_have_finite_gradients(gradient):
    for dtype, huge in [(torch.float32, 1e30), (torch.float64, 1e300)]:
        x = torch.zeros(4, 40, dtype=dtype)
        x[0, 3], x[1, 20:], x[2, ::2] = huge, -huge, huge
        x[3] = torch.linspace(-1e6, 1e6, 40)
        assert torch.isfinite(derivative(x, None, RatioChannel(gradient=gradient))).all()


def test_an_outlying_token_has_less_weight_in_the_gradient_than_its_share(gradient):
    rng = np.random.default_rng(5)
    x = torch.as_tensor(rng.normal(size=(20, 40)) * 0.02)
    x[:, 13] += 5.0
    grad = derivative(x, None, RatioChannel(gradient=gradient))
    assert grad[:, 13].abs().max() < 0.1 / 40


def test_the_upstream_gradient_scales_each_response(gradient):
    x, mask = scattered(smooth_rows(8, seed=6))
    channel = RatioChannel(gradient=gradient)
    one = derivative(x, mask, channel)
    factors = torch.linspace(-2, 3, 8, dtype=torch.float64)
    x = x.clone().requires_grad_()
    (rovrl.soft_rovr(x, mask, channel) * factors).sum().backward()
    torch.testing.assert_close(x.grad, one * factors[:, None], atol=1e-12, rtol=1e-9)


def test_robust_units_treat_the_token_scale_as_a_constant(gradient):
    """The unit is detached: the gradient is that of the absolute channel with the same numbers, so it sums to one."""
    x, mask = scattered(smooth_rows(12, seed=7))
    grad = derivative(x, mask, RatioChannel(gradient=gradient, units="robust"))
    torch.testing.assert_close(grad.sum(-1), torch.ones(12, dtype=torch.float64), atol=1e-7, rtol=0)
    scaled = derivative(10 * x, mask, RatioChannel(gradient=gradient, units="robust"))
    torch.testing.assert_close(scaled, grad, atol=1e-5, rtol=1e-5)
    unit = token_scale(x, mask, RatioChannel())
    absolute = derivative(x / unit.unsqueeze(-1), mask, RatioChannel(gradient=gradient))
    torch.testing.assert_close(grad, absolute, atol=1e-9, rtol=1e-7)


def test_no_gradient_is_recorded_when_none_is_wanted(gradient):
    x = torch.zeros(2, 8)
    assert not rovrl.soft_rovr(x, None, RatioChannel(gradient=gradient)).requires_grad
    with torch.no_grad():
        assert not rovrl.soft_rovr(x.requires_grad_(), None, RatioChannel(gradient=gradient)).requires_grad
