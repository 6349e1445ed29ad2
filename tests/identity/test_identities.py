"""Known limits and identities: what each estimator must become when its parameters say so."""

import math

import numpy as np
import torch

import reference as ref
import rovrl
from rovrl import Blocks, RatioChannel, RewardChannel
from samples import reward_groups, scattered, token_rows

WIDE = 1e6


def groups(size=16, count=90):
    return torch.as_tensor(reward_groups(count, size)[:, :])


def moderate(size=16, count=300, seed=2):
    rng = np.random.default_rng(seed)
    return torch.as_tensor(np.concatenate([rng.normal(size=(count, size)), rng.integers(0, 2, (count, size))]))


def test_a_large_score_width_turns_the_m_center_into_the_mean():
    x = moderate()
    # the bias is E|X - mu|^3 / (2 c^2) at most (eq:third_moment_bias): about 1e-12 here
    torch.testing.assert_close(rovrl.m_center(x, WIDE), x.mean(-1), atol=1e-11, rtol=0)


def test_a_small_score_width_turns_the_m_center_of_odd_groups_into_the_median():
    x = torch.as_tensor(np.random.default_rng(3).normal(size=(200, 7)))
    torch.testing.assert_close(rovrl.m_center(x, 1e-7), x.median(-1).values, atol=1e-6, rtol=0)


def test_rovr_with_one_block_is_the_global_m_center():
    x = groups()
    one = Blocks.contiguous(16, 1)
    channel = RewardChannel(num_blocks=1)
    torch.testing.assert_close(rovrl.rovr(x, one, channel), rovrl.m_center(x), atol=1e-12, rtol=1e-14)
    torch.testing.assert_close(rovrl.REFERENCES["global_m"](x, one, channel), rovrl.m_center(x), atol=1e-12, rtol=1e-14)


def test_rovr_with_a_large_score_width_has_the_means_of_vrmom():
    """With c -> infinity, psi_c is linear: centers are means, and nu_b is the population standard deviation."""
    x = moderate()
    blocks = Blocks.contiguous(16, 3)
    wide = RewardChannel(score_width=WIDE, curvature_floor=1e-300)
    torch.testing.assert_close(
        rovrl.rovr(x, blocks, wide), rovrl.REFERENCES["vrmom"](x, blocks, wide), atol=1e-8, rtol=0
    )


def test_the_mean_reference_is_the_mean_and_mom_the_median_of_block_means():
    x = groups()
    blocks, channel = Blocks.contiguous(16, 3), RewardChannel()
    torch.testing.assert_close(rovrl.REFERENCES["mean"](x, blocks, channel), x.mean(-1))
    means = torch.stack([x[:, m].mean(-1) for m in blocks.members], -1)
    expected = means.median(-1).values
    torch.testing.assert_close(rovrl.REFERENCES["mom"](x, blocks, channel), expected, atol=1e-12, rtol=1e-12)


def test_vrmom_on_equal_blocks_is_the_rank_count_form():
    """theta = mu0 - sigma / (B sqrt(n) D_K) * sum_b [K/2 + 1 - ceil((K+1) Phi(z_b))], away from ties."""
    x = np.random.default_rng(4).normal(size=(200, 20))
    K, B, n = 10, 4, 5  # even B: the initializer is a midpoint, so that no center meets it
    blocks = Blocks.contiguous(20, B)
    ours = rovrl.REFERENCES["vrmom"](torch.as_tensor(x), blocks, RewardChannel(num_levels=K, num_blocks=B)).numpy()
    _, _, D = ref.quantile_grid(K)
    means = x.reshape(-1, B, n).mean(-1)
    start = np.median(means, -1)
    sigma = np.median(x.reshape(-1, B, n).std(-1), -1)
    z = math.sqrt(n) * (means - start[:, None]) / sigma[:, None]
    cdf = np.array([[ref.NORMAL.cdf(v) for v in row] for row in z])
    counts = K / 2 + 1 - np.ceil((K + 1) * cdf)
    np.testing.assert_allclose(ours, start - sigma / (B * math.sqrt(n) * D) * counts.sum(-1), atol=1e-12)


def test_soft_rovr_with_one_block_is_the_m_center_of_the_tokens():
    rows = [r for r in token_rows(120) if len(r)]
    x, mask = scattered(rows)
    ours = rovrl.soft_rovr(x, mask, RatioChannel(num_blocks=1))
    torch.testing.assert_close(ours, rovrl.m_center(x, mask=mask), atol=1e-12, rtol=1e-12)


def test_soft_rovr_of_fewer_tokens_than_two_least_blocks_is_their_m_center():
    x = torch.as_tensor(np.random.default_rng(5).normal(size=(50, 7)) * 0.1)
    torch.testing.assert_close(rovrl.soft_rovr(x), rovrl.m_center(x), atol=1e-13, rtol=0)


def test_the_mean_limit_of_soft_rovr_is_gspos_weight_with_its_gradient(gradient):
    x, mask = scattered(token_rows(60, scale=0.01)[9:])
    x = x.clamp(-0.1, 0.1).requires_grad_()
    channel = RatioChannel(num_blocks=1, score_width=WIDE, gradient=gradient, curvature_floor=1e-300, regularizer=0.0)
    ours = rovrl.soft_rovr(x, mask, channel)
    theirs = (x * mask).sum(-1) / mask.sum(-1)
    torch.testing.assert_close(ours, theirs, atol=1e-13, rtol=0)
    ours.sum().backward()
    expected = mask.double() / mask.sum(-1, keepdim=True)
    torch.testing.assert_close(x.grad, expected, atol=1e-9, rtol=0)


def test_soft_rovr_approaches_hard_rovr_as_temperature_and_median_width_vanish():
    """All four errors (indicator, initializer, scale, solver) go to zero together, away from ties."""
    x = torch.as_tensor(np.random.default_rng(6).normal(size=(100, 35)))
    blocks = Blocks.contiguous(35, 5)
    hard = rovrl.rovr(x, blocks, RewardChannel(num_blocks=5, scale_source="local"))
    gaps = []
    for width in (1e-2, 1e-4, 1e-7):
        channel = RatioChannel(num_blocks=5, min_block=7, temperature=width, median_width=width, regularizer=0.0)
        gaps.append((rovrl.soft_rovr(x, None, channel) - hard).abs().median().item())
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-6


def test_the_credit_map_with_a_wide_bound_and_no_floor_is_center_only():
    x = moderate(count=100)
    blocks = Blocks.contiguous(16, 3)
    wide = RewardChannel(credit_bound=1e7, credit_floor=1e-3)
    credit = rovrl.ADVANTAGES["credit"](x, wide, blocks=blocks)
    center = rovrl.ADVANTAGES["center"](x, wide, blocks=blocks)
    # s_min^2 = 1e-6 is center's regularisation: the same number under the root
    torch.testing.assert_close(credit, center, atol=1e-9, rtol=0)
