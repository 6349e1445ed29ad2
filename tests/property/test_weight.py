"""The theorems about SoftRoVR (prop:main_softrovr_stability), in both gradient modes and both precisions."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import rovrl
from reference import contiguous
from rovrl import RatioChannel
from samples import scattered, token_rows

TOKENS = st.one_of(
    st.sampled_from([0.0, 0.25, -5.0, 100.0]),
    st.floats(-0.1, 0.1),
    st.integers(-32, 32).map(lambda k: k / 256),
)
ROWS = hnp.arrays(np.float64, st.integers(1, 50), elements=TOKENS)
BATCHES = st.builds(token_rows, st.just(40), seed=st.integers(0, 10**6), scale=st.sampled_from([1e-6, 1e-3, 0.03, 1.0]))
FEW = settings(max_examples=settings.default.max_examples // 3)
"""Every example is solved three ways; the profile "thorough" asks for many."""


def gradient_sums(x, mask, channel):
    x = x.clone().requires_grad_()
    rovrl.soft_rovr(x, mask, channel).sum().backward()
    return x.grad.sum(-1), x.grad


@FEW
@given(batch=BATCHES, k=st.integers(-512, 512))
def test_soft_rovr_is_translation_equivariant(gradient, batch, k):
    x, mask = scattered(batch)
    channel = RatioChannel(gradient=gradient)
    moved = rovrl.soft_rovr(x + k / 256, mask, channel) - k / 256 * mask.any(-1)
    # rounding of x + shift (1e-15) meets slopes of at most nu_max K / (4 gamma sqrt(n) D_K) ~ 1e3 (eq:rovr_lipschitz)
    torch.testing.assert_close(moved, rovrl.soft_rovr(x, mask, channel), atol=1e-9, rtol=0)


@pytest.mark.parametrize("units", ["absolute", "robust"])
@FEW
@given(row=ROWS)
def test_gradients_sum_to_one_in_float64(gradient, units, row):
    sums, grad = gradient_sums(torch.as_tensor(row), None, RatioChannel(gradient=gradient, units=units))
    assert torch.isfinite(grad).all()
    assert abs(sums.item() - 1) < 1e-6


@pytest.mark.parametrize("units", ["absolute", "robust"])
@FEW
@given(row=ROWS)
def test_gradients_sum_to_one_in_float32(gradient, units, row):
    sums, grad = gradient_sums(torch.as_tensor(row).float(), None, RatioChannel(gradient=gradient, units=units))
    assert torch.isfinite(grad).all()
    assert abs(sums.item() - 1) < 1e-4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1e-6, 1e-3, 0.03, 0.3])
def test_gradients_sum_to_one_over_hundreds_of_masked_responses(gradient, dtype, scale):
    rows = token_rows(300, seed=11, scale=scale)
    x, mask = scattered(rows, dtype=dtype)
    sums, grad = gradient_sums(x, mask, RatioChannel(gradient=gradient))
    expected = torch.tensor([1.0 if len(r) else 0.0 for r in rows], dtype=dtype)
    assert (sums - expected).abs().max() < 1e-4
    assert (grad[~mask] == 0).all()


@pytest.mark.parametrize("iterations", [1, 2, 5, 32])
def test_gradients_sum_to_one_after_any_number_of_steps(gradient, iterations):
    """ "...and any fixed number of equivariantly initialized solver steps" (prop:main_softrovr_stability)."""
    # a scale of 1 against a median width of 0.01: half of the smooth medians leave their bracket and bisect
    x, mask = scattered(token_rows(75, seed=12) + token_rows(75, seed=12, scale=1.0))
    sums, _ = gradient_sums(x, mask, RatioChannel(gradient=gradient, iterations=iterations))
    assert (sums - mask.any(-1).double()).abs().max() < 1e-6


@FEW
@given(
    row=hnp.arrays(np.float64, st.integers(1, 50), elements=st.floats(-1, 1)), value=st.sampled_from([1e3, 1e6, 1e30])
)
def test_one_token_moves_the_weight_by_a_bounded_amount_whatever_its_magnitude(gradient, row, value):
    """Blocks of four or more hold three good tokens in [-1, 1]; the correction is within C_B of their center."""
    if len(row) >= 8:
        row[len(row) // 2] = value
        channel = RatioChannel(gradient=gradient, scale_cap=1.0)
        assert abs(rovrl.soft_rovr(torch.as_tensor(row), None, channel).item()) < 1 + 2 + 2


@FEW
@given(batch=BATCHES)
def test_the_mirrored_tokens_have_the_mirrored_weight(gradient, batch):
    x, mask = scattered(batch)
    channel = RatioChannel(gradient=gradient)
    torch.testing.assert_close(
        rovrl.soft_rovr(-x, mask, channel), -rovrl.soft_rovr(x, mask, channel), atol=1e-9, rtol=0
    )


@FEW
@given(batch=BATCHES, seed=st.integers(0, 10**6))
def test_a_permutation_inside_the_blocks_changes_nothing(gradient, batch, seed):
    rng = np.random.default_rng(seed)
    shuffled = []
    for row in batch:
        members = contiguous(len(row), max(1, min(8, len(row) // 4)))
        shuffled.append(np.concatenate([rng.permutation(row[m]) for m in members]))
    channel = RatioChannel(gradient=gradient)
    before, after = (rovrl.soft_rovr(*scattered(rows), channel) for rows in (batch, shuffled))
    torch.testing.assert_close(before, after, atol=1e-9, rtol=0)
