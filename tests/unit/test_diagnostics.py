"""Contrast, displacement, inflation, flips and margins on cases worked out by hand."""

import math

import numpy as np
import pytest
import torch

import reference as ref
import rovrl
from rovrl import diagnostics as d


def test_contrast_agrees_with_its_equation():
    rng = np.random.default_rng(0)
    A, keep = rng.normal(size=(60, 9)), rng.random((60, 9)) < 0.7
    keep[:, :2] = True
    ours = rovrl.contrast(torch.as_tensor(A), torch.as_tensor(keep))
    for k in range(60):
        assert ours[k].item() == pytest.approx(ref.contrast(A[k], keep[k]), rel=1e-12)


def test_contrast_of_fewer_than_two_is_zero_and_of_a_pair_its_difference():
    A = torch.tensor([1.0, 4.0, 9.0])
    assert rovrl.contrast(A, torch.tensor([False, True, False])) == 0
    assert rovrl.contrast(A, torch.tensor([False] * 3)) == 0
    assert rovrl.contrast(A, torch.tensor([True, True, False])).item() == pytest.approx(3.0)


def test_contrast_does_not_look_at_what_is_not_kept():
    A = torch.tensor([1.0, 2.0, math.nan])
    assert rovrl.contrast(A, torch.tensor([True, True, False])).item() == pytest.approx(1.0)


def test_contrast_refuses_weights_and_wrong_shapes():
    with pytest.raises(ValueError, match="keep"):
        rovrl.contrast(torch.zeros(3), torch.ones(3))
    with pytest.raises(ValueError, match="keep"):
        rovrl.contrast(torch.zeros(3), torch.ones(4, dtype=torch.bool))


@pytest.mark.parametrize("G", [4, 8, 16])
def test_a_spike_erases_grpos_contrast_at_the_rate_of_the_proposition(G):
    """prop:grpo_broadcast: A_i - A_k = (R_i - R_k) / s with s -> |Delta| / sqrt(G) (sample form)."""
    x = np.random.default_rng(G).normal(size=G)
    keep = torch.tensor([False] + [True] * (G - 1))
    x[0] = 1e6
    a = rovrl.ADVANTAGES["grpo"](torch.as_tensor(x), rovrl.RewardChannel())
    clean = ref.contrast(x, keep.tolist())
    assert rovrl.contrast(a, keep).item() == pytest.approx(clean * math.sqrt(G) / 1e6, rel=1e-3)
    assert a[0].item() == pytest.approx((G - 1) / math.sqrt(G), rel=1e-4)
    assert a[1].item() == pytest.approx(-1 / math.sqrt(G), rel=1e-4)


def test_retention_displacement_inflation_and_deviation_are_what_they_say():
    before = torch.tensor([[0.0, 1.0, 2.0, 0.0]], dtype=torch.float64)
    after = torch.tensor([[0.5, 1.0, 1.5, 9.0]], dtype=torch.float64)
    keep = torch.tensor([[True, True, True, False]])
    assert d.contrast_retention(after, before, keep).item() == pytest.approx(0.5)
    assert d.displacement(torch.tensor(0.3), torch.tensor(0.5)).item() == pytest.approx(0.2)
    assert d.scale_inflation(torch.tensor(6.0), torch.tensor(2.0)).item() == 3.0
    assert d.clean_deviation(after, before, keep).item() == pytest.approx(math.sqrt(0.5 / 3))


def test_sign_flips_are_opposite_signs_only():
    before = torch.tensor([1.0, -1.0, 0.0, 2.0, -3.0])
    after = torch.tensor([-1.0, -2.0, 1.0, 0.0, 0.1])
    assert d.sign_flips(after, before).tolist() == [True, False, False, False, True]


def test_branch_flips_follow_the_clip_branches():
    up, down = math.log(1.001), math.log(0.999)
    before = torch.tensor([0.0, 0.0, up, down, up])
    after = torch.tensor([up, up, 0.0, 0.0, up])
    A = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0])
    assert d.branch_flips(after, before, A).tolist() == [True, False, True, True, False]


def test_an_error_below_the_margin_cannot_change_the_branch():
    """prop:branch_flip_count's premise, attacked over a grid around both edges."""
    m = torch.linspace(-1e-3, 1e-3, 4001, dtype=torch.float64)
    margin = d.clip_margin(m)
    edges = torch.tensor([math.log(1 - 3e-4), math.log(1 + 4e-4)], dtype=torch.float64)
    torch.testing.assert_close(margin, (m[:, None] - edges).abs().amin(-1), atol=1e-15, rtol=0)
    for A in (-1.0, 1.0):
        advantage = torch.full_like(m, A)
        for error in (-0.999, 0.999):
            assert not d.branch_flips(m + error * margin, m, advantage).any()


def test_weight_disagreement_is_a_share_of_the_movement():
    assert d.weight_disagreement(torch.tensor([0.1, 0.0]), torch.tensor([0.2, -0.2])).item() == pytest.approx(0.75)
    assert d.weight_disagreement(torch.zeros(2), torch.zeros(2)) == 0


def test_a_metric_has_one_spelling_and_a_meaning():
    assert d.metric("fallback_rate") == "rovr/fallback_rate"
    with pytest.raises(KeyError, match="fallbackrate"):
        d.metric("fallbackrate")
    assert all(meaning for meaning in d.METRICS.values())
