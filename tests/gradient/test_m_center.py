"""The derivative of the M-center: psi'(x_i - T) / sum psi' (implicit-function theorem)."""

import numpy as np
import pytest
import torch

import reference as ref
import rovrl


def derivative(x, width=1.0, mask=None):
    x = x.detach().clone().requires_grad_()
    rovrl.m_center(x, width, mask).sum().backward()
    return x.grad


@pytest.mark.parametrize("width", [0.1, 1.0, 10.0])
def test_gradcheck_passes_with_and_without_a_mask(width):
    x = torch.as_tensor(np.random.default_rng(0).normal(size=(6, 7))).requires_grad_()
    mask = torch.as_tensor(np.random.default_rng(1).random((6, 7)) < 0.7)
    mask[:, 0] = True
    assert torch.autograd.gradcheck(lambda v: rovrl.m_center(v, width), (x,), atol=1e-6)
    assert torch.autograd.gradcheck(lambda v: rovrl.m_center(v, width, mask), (x,), atol=1e-6)


@pytest.mark.parametrize("width", [0.1, 1.0, 10.0])
def test_the_gradient_is_the_share_of_the_curvature(width):
    x = np.random.default_rng(2).normal(size=(300, 16))
    curvature = ref.psi_deriv(x - ref.m_centers(x, width)[:, None], width).astype(float)
    ours = derivative(torch.as_tensor(x), width).numpy()
    np.testing.assert_allclose(ours, curvature / curvature.sum(-1, keepdims=True), atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_sum_to_one_and_are_positive(dtype):
    x = torch.as_tensor(np.random.default_rng(3).standard_cauchy(size=(500, 9)), dtype=dtype)
    grad = derivative(x)
    assert (grad >= 0).all()
    assert (grad.sum(-1) - 1).abs().max() < 1e-5


def test_constants_and_single_elements_share_the_gradient_equally():
    for n in (1, 2, 5):
        grad = derivative(torch.full((n,), 0.95, dtype=torch.float64))
        torch.testing.assert_close(grad, torch.full((n,), 1 / n, dtype=torch.float64))


def test_masked_elements_have_exactly_zero_gradient_even_when_nan():
    x = torch.tensor([[0.1, float("nan"), 0.4], [float("inf"), 1.0, 2.0]], dtype=torch.float64)
    mask = torch.isfinite(x)
    grad = derivative(x, 1.0, mask)
    assert (grad[~mask] == 0).all()
    torch.testing.assert_close(grad.sum(-1), torch.ones(2, dtype=torch.float64))


def test_extreme_values_have_finite_gradients():
    x = torch.tensor([[0.0, 1.0, 1e300], [-1e300, 0.0, 1e300], [0.0, 0.0, 5e-324]], dtype=torch.float64)
    grad = derivative(x)
    assert torch.isfinite(grad).all()
    torch.testing.assert_close(grad.sum(-1), torch.ones(3, dtype=torch.float64))


def test_a_second_derivative_is_refused_and_not_zero():
    x = torch.tensor([0.1, 0.7, 3.0], dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad((rovrl.m_center(x) ** 2).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()
