"""M-centers and the six reference estimators against the reference, over thousands of groups."""

from functools import cache

import numpy as np
import pytest
import torch

import reference as ref
import rovrl
from rovrl import Blocks, RewardChannel
from samples import CHEM, extreme_groups, reward_groups

NAMES = ["mean", "global_m", "mom", "vrmom", "robust_mom", "rovr"]


def well_conditioned(x, members):
    """Groups all of whose block centers a float64 score determines to 1e-9: hard steps then agree."""
    worst = np.zeros(len(x))
    for m in members:
        b = x[:, list(m)]
        worst = np.maximum(worst, ref.conditioning(b, ref.m_centers(b)))
    return worst < 1e-9


@pytest.mark.parametrize(
    ("width", "expected"), [(0.5, 3.252108836401018888), (1.0, 3.249512275399903810), (2.0, 3.289900964389642102)]
)
def test_the_m_center_of_the_chem_data_has_its_known_value(width, expected):
    assert abs(rovrl.m_center(torch.tensor(CHEM, dtype=torch.float64), width).item() - expected) < 1e-12


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("size", [1, 2, 5, 16])
@pytest.mark.parametrize("width", [0.1, 1.0, 3.0])
def test_m_centers_agree_with_bisection_over_all_floats(size, width):
    x = reward_groups(450, size, seed=size)
    ours = rovrl.m_center(torch.as_tensor(x), width).numpy()
    expected = ref.m_centers(x, width)
    error = np.abs(ours - expected)
    # 1e-12 is the accuracy asked for; a flat score (two far clusters) cannot be known better than its conditioning
    assert (error <= 1e-12 + 1e-13 * np.abs(expected) + 64 * ref.conditioning(x, expected, width)).all()


@pytest.mark.usefixtures("kernel")
def test_m_centers_of_masked_rows_are_those_of_the_kept_values():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(500, 12))
    mask = rng.random((500, 12)) < 0.6
    mask[:, 4] = True
    ours = rovrl.m_center(torch.as_tensor(np.where(mask, x, np.nan)), 1.0, torch.as_tensor(mask)).numpy()
    np.testing.assert_allclose(ours, ref.m_centers(x, 1.0, mask), atol=1e-12)


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("width", [1e-3, 1.0, 1e3])
def test_m_centers_of_extreme_groups_are_finite_and_inside_the_data(width):
    for size in (1, 2, 3, 16):
        x = torch.as_tensor(extreme_groups(size))
        ours = rovrl.m_center(x, width)
        assert torch.isfinite(ours).all()
        assert ((ours >= x.min(-1).values) & (ours <= x.max(-1).values)).all()


@pytest.mark.usefixtures("kernel")
def test_m_centers_of_extreme_groups_solve_the_score_equation():
    x = extreme_groups(16)
    ours = rovrl.m_center(torch.as_tensor(x)).numpy()
    residual = x.astype(np.longdouble) - ours.astype(np.longdouble)[:, None]
    spacing = np.spacing(np.abs(ours)) * np.asarray(ref.psi_deriv(residual, 1.0).sum(-1), dtype=float)
    assert (np.abs(ref.psi(residual, 1.0).sum(-1)) <= 1e-12 + 2 * spacing).all()


@pytest.mark.usefixtures("kernel")
def test_m_centers_of_one_element_and_of_constants_are_exact():
    for value in (0.0, 0.95, -3.7, 1e300, -1e300, 5e-324, 1e-17):
        for n in (1, 2, 3, 7, 16):
            assert rovrl.m_center(torch.full((n,), value, dtype=torch.float64)).item() == value


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_m_centers_keep_leading_axes_and_the_dtype(dtype):
    x = torch.as_tensor(reward_groups(24, 8), dtype=dtype)
    flat = rovrl.m_center(x)
    folded = rovrl.m_center(x.reshape(2, 3, 4, 8))
    assert folded.shape == (2, 3, 4)
    assert folded.dtype == dtype
    assert torch.equal(folded.reshape(-1), flat)
    assert rovrl.m_center(x[0]).shape == ()


def test_float32_m_centers_are_right_to_float32():
    x = torch.as_tensor(np.random.default_rng(0).normal(size=(2000, 16)), dtype=torch.float32)
    expected = ref.m_centers(x.double().numpy())
    assert np.abs(rovrl.m_center(x).double().numpy() - expected).max() < 1e-6


@cache
def known(name, size, num_blocks, levels):
    """Random groups and their references by the equations; both kernels are held against them."""
    blocks = Blocks.random(size, num_blocks, torch.Generator().manual_seed(size))
    x = reward_groups(270, size, seed=size + num_blocks)
    x = x[well_conditioned(x, blocks.members)]
    return x, blocks, ref.references(name, x, blocks.members, K=levels)


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("size", "num_blocks", "levels"), [(16, 3, 9), (16, 4, 4), (13, 3, 9), (20, 5, 4), (16, 1, 9)])
def test_each_reference_agrees_with_its_equation_over_random_groups(name, size, num_blocks, levels):
    x, blocks, expected = known(name, size, num_blocks, levels)
    assert len(x) > 200
    channel = RewardChannel(num_blocks=num_blocks, num_levels=levels, scale_source="local")
    ours = rovrl.REFERENCES[name](torch.as_tensor(x), blocks, channel).numpy()
    np.testing.assert_allclose(ours, expected, atol=1e-9, rtol=1e-12)


@pytest.mark.usefixtures("kernel")
def test_rovr_follows_every_parameter_of_its_channel():
    x = reward_groups(180, 16, seed=8)
    blocks = Blocks.contiguous(16, 3)
    x = x[well_conditioned(x, blocks.members)]
    for settings, theirs in [
        ({"score_width": 0.3}, {"c": 0.3}),
        ({"scale_cap": 0.05}, {"nu_max": 0.05}),
        ({"scale_floor": 0.4}, {"nu_min": 0.4}),
        ({"curvature_floor": 0.9}, {"a_min": 0.9}),
        ({"scale_source": 0.25}, {"nu": 0.25}),
        ({"tie_tolerance": 0.3}, {"tie": 0.3}),
    ]:
        channel = RewardChannel(**{"scale_source": "local", **settings})
        ours = rovrl.rovr(torch.as_tensor(x), blocks, channel).numpy()
        expected = ref.references("rovr", x, blocks.members, **theirs)
        np.testing.assert_allclose(ours, expected, atol=1e-9, rtol=1e-12, err_msg=str(settings))


def test_auto_scale_is_local_from_blocks_of_four_upwards_and_the_batchs_within_group_scale_below():
    x = np.random.default_rng(1).normal(size=(60, 16)) * np.linspace(0.1, 2, 60)[:, None]
    auto = RewardChannel(num_blocks=4)
    ours = rovrl.rovr(torch.as_tensor(x), Blocks.contiguous(16, 4), auto).numpy()
    np.testing.assert_allclose(ours, ref.references("rovr", x, ref.contiguous(16, 4)), atol=1e-10)

    x = x[:, :9]
    whole = [ref.sandwich_scale(row, ref.m_center(row)) for row in x]
    pooled = ref.midpoint_median(whole)
    ours = rovrl.rovr(torch.as_tensor(x), Blocks.contiguous(9, 3), RewardChannel()).numpy()
    np.testing.assert_allclose(ours, ref.references("rovr", x, ref.contiguous(9, 3), nu=pooled), atol=1e-10)


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("name", NAMES)
def test_references_of_extreme_groups_are_finite(name):
    x = torch.as_tensor(extreme_groups(16))
    for num_blocks in (1, 2, 3, 8):
        blocks = Blocks.contiguous(16, num_blocks)
        assert torch.isfinite(rovrl.REFERENCES[name](x, blocks, RewardChannel(num_blocks=num_blocks))).all()


def test_references_batch_over_leading_axes():
    x = torch.as_tensor(reward_groups(24, 16))
    blocks, channel = Blocks.contiguous(16, 3), RewardChannel(scale_source="local")
    for name in NAMES:
        flat = rovrl.REFERENCES[name](x, blocks, channel)
        assert torch.equal(rovrl.REFERENCES[name](x.reshape(2, 12, 16), blocks, channel).reshape(-1), flat)
        assert rovrl.REFERENCES[name](x[0], blocks, channel).shape == ()


def test_float32_rewards_are_computed_in_float64():
    """All reward statistics are float64: float32 input costs its own rounding and nothing more."""
    x = torch.as_tensor(np.random.default_rng(2).normal(size=(300, 16)), dtype=torch.float32)
    blocks = Blocks.contiguous(16, 3)
    ours = rovrl.rovr(x, blocks, RewardChannel()).double().numpy()
    expected = ref.references("rovr", x.double().numpy(), blocks.members)
    assert np.abs(ours - expected).max() < 2e-7


def test_the_names_of_the_references_are_the_papers_six():
    assert sorted(rovrl.REFERENCES) == sorted(NAMES)
    x = torch.as_tensor(reward_groups(18, 16))
    blocks, channel = Blocks.contiguous(16, 3), RewardChannel()
    assert torch.equal(rovrl.rovr(x, blocks, channel), rovrl.REFERENCES["rovr"](x, blocks, channel))


def test_an_empty_batch_of_groups_gives_an_empty_result():
    x = torch.zeros(0, 16, dtype=torch.float64)
    for name in NAMES:
        assert rovrl.REFERENCES[name](x, Blocks.contiguous(16, 3), RewardChannel()).shape == (0,)


@pytest.mark.parametrize("name", NAMES)
def test_blocks_for_another_group_size_are_refused_with_both_sizes(name):
    with pytest.raises(ValueError, match=r"(?s)15.*16|16.*15"):
        rovrl.REFERENCES[name](torch.zeros(4, 16, dtype=torch.float64), Blocks.contiguous(15, 3), RewardChannel())


def test_an_m_center_of_a_scalar_or_with_a_wrong_mask_or_width_is_refused():
    x = torch.zeros(3, 4)
    with pytest.raises(ValueError, match="score_width"):
        rovrl.m_center(x, 0.0)
    with pytest.raises(ValueError, match="score_width"):
        rovrl.m_center(x, float("nan"))
    with pytest.raises(ValueError, match="score_width"):
        rovrl.m_center(x, float("inf"))
    with pytest.raises(ValueError, match="mask"):
        rovrl.m_center(x, 1.0, torch.ones(3, 5, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"\bx\b"):
        rovrl.m_center(torch.tensor(1.0))
