"""SoftRoVR against the reference: values, masks, lengths, precision, units."""

import math

import numpy as np
import pytest
import torch

import reference as ref
import rovrl
from rovrl import RatioChannel, soft_rovr
from rovrl.robust.kernels import use_kernel
from rovrl.weight import gspo_mean
from samples import scattered, token_rows

PAPER = RatioChannel()


@pytest.mark.parametrize("scale", [0.003, 0.03, 1.0])
def test_soft_rovr_agrees_with_its_equations_over_masks_with_holes(gradient, scale):
    rows = token_rows(250, seed=int(scale * 1000), scale=scale)
    x, mask = scattered(rows)
    ours = rovrl.soft_rovr(x, mask, RatioChannel(gradient=gradient, regularizer=0.0)).numpy()
    np.testing.assert_allclose(ours, ref.soft_rovrs(rows), atol=1e-9)


@pytest.mark.parametrize(
    ("settings", "theirs"),
    [
        ({"num_blocks": 3}, {"num_blocks": 3}),
        ({"num_blocks": 5, "min_block": 2}, {"num_blocks": 5, "min_block": 2}),
        ({"num_levels": 4}, {"K": 4}),
        ({"score_width": 0.05}, {"c": 0.05}),
        ({"temperature": 0.1}, {"gamma": 0.1}),
        ({"median_width": 0.2}, {"eta": 0.2}),
        ({"scale_cap": 0.02}, {"nu_max": 0.02}),
        ({"scale_floor": 0.1}, {"nu_min": 0.1}),
        ({"curvature_floor": 0.95}, {"a_min": 0.95}),
    ],
)
def test_soft_rovr_follows_every_parameter_of_its_channel(gradient, settings, theirs):
    rows = token_rows(60, seed=3)
    x, mask = scattered(rows)
    channel = RatioChannel(gradient=gradient, regularizer=0.0, **settings)
    ours = rovrl.soft_rovr(x, mask, channel).numpy()
    np.testing.assert_allclose(ours, ref.soft_rovrs(rows, **theirs), atol=1e-9)


def test_the_papers_regularizer_changes_the_weight_by_less_than_a_part_in_ten_million():
    rows = token_rows(200, seed=4)
    x, mask = scattered(rows)
    with_it, without = rovrl.soft_rovr(x, mask, PAPER), rovrl.soft_rovr(x, mask, RatioChannel(regularizer=0.0))
    # it shrinks nu (at most 10) by 1e-8 relative, and nu enters the weight by a factor below one
    assert (with_it - without).abs().max() < 1e-6
    torch.testing.assert_close(with_it, torch.as_tensor(ref.soft_rovrs(rows)), atol=1e-6, rtol=0)


def test_a_response_of_twenty_seven_tokens_has_six_blocks_and_one_of_three_has_one():
    """B = min(8, T // 4): counted through the reference, whose partitions are plain lists."""
    rng = np.random.default_rng(1)
    for T in range(1, 40):
        tokens = rng.normal(size=T) * 0.05
        ours = rovrl.soft_rovr(torch.as_tensor(tokens), None, RatioChannel(regularizer=0.0)).item()
        right = ref.soft_rovr(tokens)
        assert abs(ours - right) < 1e-11, T


@pytest.mark.parametrize("filler", [0.0, 1e30, math.nan, math.inf])
def test_what_masked_slots_hold_does_not_matter(gradient, filler):
    rows = token_rows(60, seed=5)
    channel = RatioChannel(gradient=gradient)
    clean, mask = scattered(rows, filler=0.0)
    dirty, same = scattered(rows, filler=filler)
    assert torch.equal(mask, same)
    assert torch.equal(rovrl.soft_rovr(clean, mask, channel), rovrl.soft_rovr(dirty, mask, channel))


def test_where_the_holes_are_does_not_matter(gradient):
    rows = token_rows(60, seed=6)
    channel = RatioChannel(gradient=gradient)
    one, two = scattered(rows, seed=1), scattered(rows, seed=2)
    torch.testing.assert_close(rovrl.soft_rovr(*one, channel), rovrl.soft_rovr(*two, channel), atol=1e-13, rtol=0)


def test_a_response_without_tokens_has_log_weight_zero(gradient):
    channel = RatioChannel(gradient=gradient)
    x = torch.full((3, 5), 0.7, dtype=torch.float64)
    mask = torch.tensor([[True] * 5, [False] * 5, [True, False, True, False, True]])
    ours = rovrl.soft_rovr(x, mask, channel)
    assert ours[1] == 0
    assert ours[0].item() == pytest.approx(0.7, abs=1e-14)
    assert rovrl.soft_rovr(torch.zeros(2, 0), None, channel).tolist() == [0.0, 0.0]
    assert rovrl.soft_rovr(torch.zeros(0, 7), None, channel).shape == (0,)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_constant_tokens_keep_their_value(gradient, dtype):
    for value in (0.0, 0.25, -3.0, 1e-12, 1e4):
        for T in (1, 3, 4, 8, 33, 100):
            x = torch.full((T,), value, dtype=dtype)
            ours = rovrl.soft_rovr(x, None, RatioChannel(gradient=gradient)).item()
            assert ours == pytest.approx(x[0].item(), rel=4 * torch.finfo(dtype).eps, abs=1e-18)


def test_float32_log_weights_are_right_far_inside_the_clip_band(gradient):
    """The clip band is 3e-4 wide: float32 must see it. A log-ratio of 0.03 has a float32 ulp of 2e-9."""
    rows = [r for r in token_rows(200, seed=7, scale=0.01) if len(r) and np.abs(r).max() < 1]
    x, mask = scattered(rows, dtype=torch.float32)
    ours = rovrl.soft_rovr(x, mask, RatioChannel(gradient=gradient)).double().numpy()
    exact = ref.soft_rovrs([x[i][mask[i]].double().numpy() for i in range(len(rows))])
    assert np.abs(ours - exact).max() < 3e-6


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_log_ratios_are_computed_in_float32_at_least(dtype):
    x = torch.as_tensor(np.random.default_rng(0).normal(size=(20, 40)) * 0.02).to(dtype)
    ours = rovrl.soft_rovr(x)
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours, rovrl.soft_rovr(x.float()), atol=0, rtol=0)


def test_autocast_does_not_lower_the_precision():
    x = torch.as_tensor(np.random.default_rng(0).normal(size=(20, 40)) * 0.02, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside, mean = rovrl.soft_rovr(x), gspo_mean(x, torch.ones_like(x, dtype=torch.bool))
    assert torch.equal(inside, rovrl.soft_rovr(x))
    assert mean.dtype == torch.float32


@pytest.mark.parametrize("magnitude", [1e3, 1e6, 1e12, 1e30, 1e300])
def test_one_token_moves_the_weight_as_far_as_a_thousand_does_whatever_its_magnitude(gradient, magnitude):
    rng = np.random.default_rng(15)
    for T in (5, 9, 40):
        x = torch.as_tensor(rng.normal(size=(8, T)) * 0.02)
        x[:, T // 2] = 1e3
        at_a_thousand = rovrl.soft_rovr(x, None, RatioChannel(gradient=gradient))
        x[:, T // 2] = magnitude
        # beyond 1000 widths the score is 1/c to 5e-7
        torch.testing.assert_close(
            rovrl.soft_rovr(x, None, RatioChannel(gradient=gradient)), at_a_thousand, atol=1e-4, rtol=0
        )


def test_extreme_tokens_leave_the_log_weight_finite(gradient):
    channel = RatioChannel(gradient=gradient)
    for dtype, huge in [(torch.float32, 1e30), (torch.float64, 1e300)]:
        for T in (1, 5, 8, 40):
            x = torch.zeros(5, T, dtype=dtype)
            x[0, 0], x[1, T // 2 :], x[2, ::2], x[3, -1] = huge, -huge, huge, -1e4
            x[4] = torch.linspace(-1e6, 1e6, T)
            assert torch.isfinite(rovrl.soft_rovr(x, None, channel)).all()


def test_log_ratios_keep_their_leading_axes(gradient):
    x = torch.as_tensor(np.random.default_rng(0).normal(size=(2, 3, 40)) * 0.1)
    mask = torch.as_tensor(np.random.default_rng(1).random((2, 3, 40)) < 0.8)
    channel = RatioChannel(gradient=gradient)
    folded = rovrl.soft_rovr(x, mask, channel)
    assert folded.shape == (2, 3)
    flat = rovrl.soft_rovr(x.reshape(6, 40), mask.reshape(6, 40), channel)
    torch.testing.assert_close(folded.reshape(6), flat, atol=1e-14, rtol=0)


def test_the_batch_around_a_response_does_not_change_its_weight():
    rows = token_rows(60, seed=8)
    x, mask = scattered(rows)
    together = rovrl.soft_rovr(x, mask)
    for i in range(0, 60, 7):
        alone = rovrl.soft_rovr(x[i : i + 1], mask[i : i + 1])
        torch.testing.assert_close(alone[0], together[i], atol=1e-14, rtol=0)


@pytest.mark.parametrize("factor", [1e-3, 0.1, 10.0, 300.0])
def test_robust_units_make_the_weight_scale_equivariant(gradient, factor):
    rows = [r for r in token_rows(100, seed=9) if len(r) > 8 and (np.abs(r) > 0).mean() > 0.9]
    x, mask = scattered(rows)
    channel = RatioChannel(units="robust", gradient=gradient, regularizer=0.0)
    one, scaled = rovrl.soft_rovr(x, mask, channel), rovrl.soft_rovr(factor * x, mask, channel)
    torch.testing.assert_close(scaled, factor * one, rtol=1e-7, atol=1e-12 * factor)


def test_robust_units_are_the_absolute_ones_times_the_middle_mean_deviation_of_the_blocks(gradient):
    """√(π/2) times a mean absolute deviation is the standard deviation of normal tokens."""
    x = (
        torch.as_tensor(np.random.default_rng(3).normal(size=(6, 40)))
        * torch.tensor([1e-3, 0.1, 1.0, 3.0, 0.5, 20.0])[:, None]
    )
    blocks = x.view(6, 8, 5)
    deviation = (blocks - blocks.mean(-1, keepdim=True)).abs().mean(-1)
    unit = math.sqrt(math.pi / 2) * deviation.quantile(0.5, -1)
    robust = rovrl.soft_rovr(x, None, RatioChannel(units="robust", gradient=gradient))
    absolute = rovrl.soft_rovr(x / unit[:, None], None, RatioChannel(gradient=gradient))
    torch.testing.assert_close(robust, unit * absolute, rtol=1e-9, atol=0)


def test_robust_units_on_tokens_without_spread_are_finite_and_exact(gradient):
    channel = RatioChannel(units="robust", gradient=gradient)
    x = torch.full((4, 40), 0.25, dtype=torch.float64)
    x[1] = 0.0
    x[2, 0] = 3.0
    ours = rovrl.soft_rovr(x, None, channel)
    assert torch.isfinite(ours).all()
    assert ours[:2].tolist() == pytest.approx([0.25, 0.0], abs=1e-12)
    assert abs(ours[2].item() - 0.25) < 0.1


def test_a_burst_moves_the_mean_ten_times_further_than_soft_rovr():
    """20 % of the tokens shifted by 16 sigma, in one piece: what blocks are for (tab:softrovr_local_stress)."""
    rng = np.random.default_rng(2)
    x = torch.as_tensor(rng.normal(size=(200, 200)) * 0.03)
    burst = x.clone()
    burst[:, 80:120] += 16 * 0.03
    channel = RatioChannel(units="robust")
    robust = (rovrl.soft_rovr(burst, None, channel) - rovrl.soft_rovr(x, None, channel)).abs().median()
    mean = (burst.mean(-1) - x.mean(-1)).abs().median()
    assert robust < mean / 10


def test_gspo_mean_is_the_masked_mean():
    rows = token_rows(60, seed=10)
    x, mask = scattered(rows, filler=math.nan)
    ours = gspo_mean(x, mask).numpy()
    np.testing.assert_allclose(ours, [r.mean() if len(r) else 0.0 for r in rows], atol=1e-12)


def test_a_mask_of_another_shape_and_a_single_number_are_refused():
    x = torch.zeros(2, 5)
    with pytest.raises(ValueError, match="mask"):
        rovrl.soft_rovr(x, torch.ones(2, 4, dtype=torch.bool))
    with pytest.raises(ValueError, match="mask"):
        gspo_mean(x, torch.ones(5, dtype=torch.bool))
    with pytest.raises(ValueError, match="log_ratios"):
        rovrl.soft_rovr(torch.tensor(0.3))


def test_a_mask_of_zeros_and_ones_means_the_same_as_a_bool_mask():
    x, mask = scattered(token_rows(30, seed=13))
    assert torch.equal(rovrl.soft_rovr(x, mask.long()), rovrl.soft_rovr(x, mask))


def test_a_valid_token_that_is_nan_spoils_its_own_response_and_no_other():
    x, mask = scattered(token_rows(30, seed=14))
    clean = rovrl.soft_rovr(x, mask)
    x[20, mask[20].nonzero()[3]] = math.nan
    dirty = rovrl.soft_rovr(x, mask)
    assert dirty[20].isnan()
    others = torch.arange(30) != 20
    assert torch.equal(dirty[others], clean[others])


@pytest.mark.parametrize("kernel", ["eager", "numba"])
@pytest.mark.parametrize(
    ("units", "gradient"), [("absolute", "implicit"), ("absolute", "unrolled"), ("robust", "implicit")]
)
def test_log_ratios_at_the_largest_number_have_a_finite_gradient_that_sums_to_one(units, gradient, kernel):
    huge = 1.79e308
    rows = [[huge, -huge] * 16, [huge] + [0.0] * 31, [huge] * 16 + [-huge] * 16]
    x = torch.tensor(rows, dtype=torch.float64, requires_grad=True)
    with use_kernel(kernel):
        value = soft_rovr(x, channel=RatioChannel(units=units, gradient=gradient))
        value.sum().backward()
    assert value.isfinite().all()
    torch.testing.assert_close(x.grad.sum(-1), torch.ones(3, dtype=torch.float64), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_eager_and_compiled_agree_at_narrow_settings(dtype, generator):
    """Block areas were taken to float32 by a product of integers with a float: 3e-9 apart in float64."""
    x = (0.05 * torch.randn(4, 200, generator=generator)).to(dtype)
    found = []
    for kernel in ("eager", "numba"):
        with use_kernel(kernel):
            found.append(soft_rovr(x, channel=RatioChannel(score_width=0.1, temperature=1e-3)))
    torch.testing.assert_close(*found, rtol=0, atol=1e-13 if dtype == torch.float64 else 2e-7)
