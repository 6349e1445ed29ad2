"""The clipped objective and its branches against eq:gspo_objective and eq:clipping_branch_derivative."""

import math

import numpy as np
import pytest
import torch

import reference as ref
import rovrl


def pairs():
    m = [math.log1p(v) for v in (-0.5, -4e-4, -2.9e-4, -1e-5, 0.0, 1e-5, 3.9e-4, 5e-4, 1.0)] + [
        -30.0,
        3.0,
        19.9,
        20.1,
        700.0,
    ]
    A = [-1e4, -2.0, -1e-3, 0.0, 1e-3, 1.0, 3.5]
    grid = [(x, a) for x in m for a in A]
    return torch.tensor([p[0] for p in grid], dtype=torch.float64), torch.tensor(
        [p[1] for p in grid], dtype=torch.float64
    )


@pytest.mark.parametrize(("low", "high"), [(3e-4, 4e-4), (0.2, 0.28)])
def test_the_objective_and_its_branch_agree_with_their_equations(low, high):
    m, A = pairs()
    objective = rovrl.clipped_objective(m, A, low, high).numpy()
    branch = rovrl.clip_branch(m, A, low, high).numpy()
    for i in range(len(m)):
        assert objective[i] == pytest.approx(ref.clipped_objective(m[i].item(), A[i].item(), low, high), rel=1e-12)
        assert branch[i] == ref.clip_branch(m[i].item(), A[i].item(), low, high)


def test_the_default_band_is_gspos():
    m, A = pairs()
    assert torch.equal(rovrl.clipped_objective(m, A), rovrl.clipped_objective(m, A, 3e-4, 4e-4))
    assert torch.equal(rovrl.clip_branch(m, A), rovrl.clip_branch(m, A, 3e-4, 4e-4))


def test_the_derivative_has_the_papers_four_cases():
    m, A = pairs()
    m = m.clone().requires_grad_()
    rovrl.clipped_objective(m, A).sum().backward()
    branch = rovrl.clip_branch(m.detach(), A)
    expected = torch.where((branch == 0) & (m.detach() < 20), m.detach().clamp(max=20).exp() * A, 0.0)
    torch.testing.assert_close(m.grad, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_weight_is_finite_for_every_finite_log_weight_and_its_gradient_zero_beyond_twenty(dtype):
    m = torch.tensor([20.5, 100.0, 1e4, 3e38], dtype=dtype, requires_grad=True)
    A = torch.tensor([-1.0, -2.0, -1.0, -3.0], dtype=dtype)
    objective = rovrl.clipped_objective(m, A)
    torch.testing.assert_close(objective, A * math.exp(20.0), rtol=1e-6, atol=0)
    objective.sum().backward()
    assert (m.grad == 0).all()


def test_a_zero_advantage_gives_zero_objective_and_zero_gradient_at_any_weight():
    """OpenRLHF #1293: an unbounded exponent gave inf, and 0 * inf a nan in every parameter."""
    m = torch.tensor([-1e4, 0.0, 25.0, 1e30], dtype=torch.float32, requires_grad=True)
    objective = rovrl.clipped_objective(m, torch.zeros(4))
    assert (objective == 0).all()
    objective.sum().backward()
    assert (m.grad == 0).all()


def test_float32_sees_the_clip_band():
    """1 + 4e-4 is 3400 float32 ulps above 1: a log weight 1e-6 on either side of an edge gets its branch."""
    for edge, A, outside in [(math.log(1 + 4e-4), 1.0, 1), (math.log(1 - 3e-4), -1.0, -1)]:
        m = torch.tensor([edge - 1e-6, edge + 1e-6], dtype=torch.float32)
        branch = rovrl.clip_branch(m, torch.full((2,), A))
        assert sorted(branch.tolist()) == sorted([0, outside])


def test_half_precision_log_weights_are_raised_to_float32():
    m = torch.tensor([0.0, 0.01], dtype=torch.bfloat16)
    assert rovrl.clipped_objective(m, torch.ones(2)).dtype == torch.float32


def test_objectives_broadcast_and_carry_a_gradient_to_the_log_weight_only():
    m = torch.zeros(3, 4, dtype=torch.float64, requires_grad=True)
    A = torch.ones(3, 4, dtype=torch.float64, requires_grad=True)
    rovrl.clipped_objective(m, A).mean().backward()
    np.testing.assert_allclose(m.grad.numpy(), 1 / 12)
    assert A.grad is None


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("clip_low", {"clip_low": -0.1}),
        ("clip_low", {"clip_low": 1.0}),
        ("clip_low", {"clip_low": math.nan}),
        ("clip_high", {"clip_high": -0.1}),
        ("clip_high", {"clip_high": math.nan}),
    ],
)
def test_a_clip_band_that_is_none_is_refused_by_name_and_value(name, values):
    for function in (rovrl.clipped_objective, rovrl.clip_branch):
        with pytest.raises(ValueError, match=name) as refusal:
            function(torch.zeros(2), torch.ones(2), **values)
        assert repr(values[name]) in str(refusal.value)


def test_shapes_that_do_not_match_are_refused_with_both():
    for function in (rovrl.clipped_objective, rovrl.clip_branch):
        with pytest.raises(ValueError, match=r"(?s)3.*4|4.*3"):
            function(torch.zeros(3), torch.ones(4))
