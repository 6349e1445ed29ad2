"""Advantages against the reference, the fallback of alg:rovr_gspo, and ragged groups by id."""

import math

import numpy as np
import pytest
import torch

import reference as ref
import rovrl
from rovrl import ADVANTAGES, Blocks, RewardChannel
from rovrl.advantage import explain
from rovrl.robust.kernels import use_kernel
from rovrl.scales import within_group_scale
from samples import extreme_groups, reward_groups

CONTIGUOUS = RewardChannel(partition="contiguous")
LOCAL = RewardChannel(partition="contiguous", scale_source="local")
METHODS = ["grpo", "center", "loo", "credit"]


def expected(method, rows, *, num_blocks=3, members=None, kappa=1.0, s_min=1e-3):
    """The paper's advantages of finite groups [rows, n] with a local scale, contiguous blocks unless given."""
    rows = np.asarray(rows, dtype=np.float64)
    n = rows.shape[1]
    if method == "grpo":
        return np.array([ref.grpo(list(row)) for row in rows])
    if method == "loo":
        rest = np.stack([np.delete(rows, i, axis=1) for i in range(n)])  # [left out, rows, n - 1]
        theta = thetas(rest.reshape(-1, n - 1), num_blocks).reshape(n, len(rows))
        scale = np.sqrt(s_min**2 + ((rest - theta[..., None]) ** 2).mean(-1))
        return ((rows.T - theta) / scale).T
    build = ref.center if method == "center" else (lambda row, theta: ref.credit(row, theta, kappa, s_min))
    return np.array([build(list(r), float(t)) for r, t in zip(rows, thetas(rows, num_blocks, members), strict=True)])


def thetas(rows, num_blocks=3, members=None, q=1, s=1):
    """alg:rovr_gspo's reference per row: RoVR, or the global M-center where the partition cannot carry (q, s)."""
    n = rows.shape[1]
    members = ref.contiguous(n, num_blocks) if members is None and num_blocks <= n else members
    carried = members is not None and ref.supported([len(m) for m in members], n, q, s)
    return ref.references("rovr" if carried else "global_m", rows, members)


def near(x, size, num_blocks=3):
    """Rows of `x` whose block centers a float64 score determines well, the whole group's and the leave-one-out ones."""
    good = np.ones(len(x), dtype=bool)
    for m in [*ref.contiguous(size, num_blocks), range(size)]:
        b = x[:, list(m)]
        good &= ref.conditioning(b, ref.m_centers(b)) < 1e-10
    return x[good]


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("method", ["grpo", "center", "credit"])
@pytest.mark.parametrize("size", [16, 9, 20])
def test_advantages_agree_with_their_equations_over_random_groups(method, size):
    x = near(reward_groups(300, size, seed=size), size)
    assert len(x) > 220
    ours = rovrl.ADVANTAGES[method](torch.as_tensor(x), LOCAL).numpy()
    theirs = expected(method, x)
    # an error of 1e-10 in the reference is divided by a scale of at least 1e-3
    np.testing.assert_allclose(ours, theirs, atol=1e-7, rtol=1e-9)


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("size", [16, 13, 8, 5, 2])
def test_leave_one_out_advantages_agree_with_their_equation(size):
    rng = np.random.default_rng(size)
    x = np.concatenate([rng.normal(size=(40, size)), rng.integers(0, 5, (40, size)) / 4])
    ours = rovrl.ADVANTAGES["loo"](torch.as_tensor(x), LOCAL).numpy()
    theirs = expected("loo", x)
    np.testing.assert_allclose(ours, theirs, atol=1e-7, rtol=1e-9)


def test_leave_one_out_ignores_the_blocks_it_is_given():
    x = torch.as_tensor(reward_groups(40, 16))
    blocks = Blocks.of([[0], list(range(1, 16))])
    assert torch.equal(rovrl.ADVANTAGES["loo"](x, LOCAL), rovrl.ADVANTAGES["loo"](x, LOCAL, blocks=blocks))


def test_credit_follows_its_bound_and_floor():
    x = near(reward_groups(200, 16, seed=4), 16)
    for kappa, s_min in [(0.3, 1e-3), (1.0, 0.5), (5.0, 1e-2)]:
        channel = RewardChannel(partition="contiguous", credit_bound=kappa, credit_floor=s_min)
        ours = rovrl.ADVANTAGES["credit"](torch.as_tensor(x), channel).numpy()
        theirs = expected("credit", x, kappa=kappa, s_min=s_min)
        np.testing.assert_allclose(ours, theirs, atol=1e-7)


def test_explicit_blocks_are_used():
    x = near(reward_groups(200, 16, seed=6), 16)
    members = [[0, 3, 6, 9, 12, 15], [1, 4, 7, 10, 13], [2, 5, 8, 11, 14]]
    ours = rovrl.ADVANTAGES["credit"](torch.as_tensor(x), LOCAL, blocks=Blocks.of(members)).numpy()
    theirs = expected("credit", x, members=members)
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_the_random_partition_is_that_of_the_generator_and_fixed_without_one():
    x = torch.as_tensor(near(reward_groups(100, 16, seed=9), 16))
    channel = RewardChannel()
    for seed in (1, 2):
        blocks = Blocks.random(16, 3, torch.Generator().manual_seed(seed))
        given = rovrl.ADVANTAGES["credit"](x, channel, blocks=blocks)
        drawn = rovrl.ADVANTAGES["credit"](x, channel, generator=torch.Generator().manual_seed(seed))
        torch.testing.assert_close(drawn, given, atol=1e-12, rtol=0)
    torch.testing.assert_close(
        rovrl.ADVANTAGES["credit"](x, channel),
        rovrl.ADVANTAGES["credit"](x, channel, blocks=Blocks.random(16, 3, None)),
    )


FALLBACKS = {
    "an undeclared failure unit": ({"failure_unit": None}, 16, None),
    "an undeclared block budget": ({"arbitrary_blocks": None}, 16, None),
    "an undeclared replacement budget": ({"replaced_per_block": None}, 16, None),
    "a single block": ({"num_blocks": 1, "arbitrary_blocks": 0}, 16, None),
    "fewer blocks than the budget needs": ({"num_blocks": 2}, 16, None),
    "smaller blocks than the budget needs": ({}, 8, None),
    "fewer responses than blocks": ({}, 2, None),
    "unbalanced explicit blocks": ({}, 16, [[0, 1, 2], [3, 4, 5, 6], list(range(7, 16))]),
    "more explicit blocks than declared": ({"replaced_per_block": 1}, 20, [list(range(b, 20, 5)) for b in range(5)]),
    "fewer explicit blocks than declared": (
        {"num_blocks": 5, "arbitrary_blocks": 0},
        16,
        [list(range(8)), list(range(8, 16))],
    ),
}


@pytest.mark.parametrize("case", FALLBACKS)
@pytest.mark.parametrize("method", ["center", "credit"])
def test_the_reference_falls_back_to_the_global_m_center_for(case, method):
    settings, size, members = FALLBACKS[case]
    channel = RewardChannel(partition="contiguous", **settings)
    x = np.random.default_rng(0).normal(size=(40, size))
    blocks = None if members is None else Blocks.of(members)
    ours = rovrl.ADVANTAGES[method](torch.as_tensor(x), channel, blocks=blocks).numpy()
    thetas = ref.m_centers(x)
    build = ref.center if method == "center" else ref.credit
    theirs = np.array([build(list(row), float(t)) for row, t in zip(x, thetas, strict=True)])
    np.testing.assert_allclose(ours, theirs, atol=1e-8)


def test_the_supported_default_does_not_fall_back_and_explain_says_so():
    x = torch.as_tensor(np.random.default_rng(0).normal(size=(4, 16)))
    ids = torch.arange(4).repeat_interleave(16)
    assert not explain(x.reshape(-1), ids, RewardChannel()).fallback.any()
    assert explain(x.reshape(-1), ids, RewardChannel(failure_unit=None)).fallback.all()
    assert explain(x[:, :8].reshape(-1), ids.reshape(4, 16)[:, :8].reshape(-1), RewardChannel()).fallback.all()


@pytest.mark.parametrize("method", METHODS)
def test_grouped_advantages_of_ragged_groups_in_any_row_order_are_those_of_each_group_alone(method):
    rng = np.random.default_rng(7)
    sizes = [16, 5, 1, 9, 16, 2, 12, 3]
    groups = [rng.normal(size=n) for n in sizes]
    rewards = np.concatenate(groups)
    ids = np.repeat(np.arange(len(sizes)), sizes)
    order = rng.permutation(len(ids))
    ours = rovrl.grouped_advantages(torch.as_tensor(rewards[order]), torch.as_tensor(ids[order]), LOCAL, method=method)
    for g in range(len(sizes)):
        rows = np.flatnonzero(ids[order] == g)
        mine = rewards[order][rows]
        theirs = [0.0] if len(mine) == 1 else expected(method, mine[None])[0]
        np.testing.assert_allclose(ours[rows].numpy(), theirs, atol=1e-7)


@pytest.mark.parametrize("kind", ["strings", "integers", "tensor", "numpy", "mixed sizes of integers"])
def test_group_ids_may_be_anything_that_can_be_told_apart(kind):
    rewards = torch.as_tensor(np.random.default_rng(3).normal(size=32))
    labels = ["prompt-b", "prompt-a"] * 16
    ids = {
        "strings": labels,
        "integers": [hash(label) for label in labels],
        "tensor": torch.tensor([5, -2] * 16),
        "numpy": np.array(labels, dtype=object),
        "mixed sizes of integers": [2**62, -1] * 16,
    }[kind]
    ours = rovrl.grouped_advantages(rewards, ids, CONTIGUOUS)
    for start in (0, 1):
        alone = rovrl.ADVANTAGES["credit"](rewards[start::2], CONTIGUOUS)
        torch.testing.assert_close(ours[start::2].double(), alone.double(), atol=1e-12, rtol=0)


def test_grouped_advantages_do_not_depend_on_the_other_groups_when_the_scale_is_local():
    rng = np.random.default_rng(5)
    mine, others = rng.normal(size=16), rng.normal(size=64) * 1e6
    alone = rovrl.grouped_advantages(torch.as_tensor(mine), ["a"] * 16, CONTIGUOUS)
    ids = ["x"] * 16 + ["a"] * 16 + ["y"] * 48
    together = rovrl.grouped_advantages(
        torch.as_tensor(np.concatenate([others[:16], mine, others[16:]])), ids, CONTIGUOUS
    )
    assert torch.equal(together[16:32], alone)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, None])
def test_a_reward_that_is_no_score_gets_zero_and_alters_no_other_advantage(method, bad):
    rng = np.random.default_rng(9)
    clean = list(rng.normal(size=16))
    other = list(rng.normal(size=16))
    rewards = [*clean[:4], bad, *clean[4:], *other]
    ids = [0] * 17 + [1] * 16
    ours = rovrl.grouped_advantages(rewards, ids, CONTIGUOUS, method=method)
    assert ours[4] == 0
    without = rovrl.grouped_advantages(torch.as_tensor(clean + other), [0] * 16 + [1] * 16, CONTIGUOUS, method=method)
    assert torch.equal(torch.cat([ours[:4], ours[5:]]), without)


@pytest.mark.parametrize("method", METHODS)
def test_non_finite_rewards_in_a_rectangular_batch_are_left_out_too(method):
    rng = np.random.default_rng(10)
    x = torch.as_tensor(rng.normal(size=(6, 16)))
    dirty = x.clone()
    dirty[1, 3], dirty[2, 0], dirty[2, 15], dirty[4, :] = math.nan, math.inf, -math.inf, math.nan
    ours = rovrl.ADVANTAGES[method](dirty, CONTIGUOUS)
    assert torch.isfinite(ours).all()
    assert (ours[~torch.isfinite(dirty)] == 0).all()
    for row in (1, 2):
        keep = torch.isfinite(dirty[row])
        alone = rovrl.ADVANTAGES[method](dirty[row][keep], CONTIGUOUS)
        torch.testing.assert_close(ours[row][keep], alone, atol=1e-12, rtol=0)
    clean = rovrl.ADVANTAGES[method](x, CONTIGUOUS)
    torch.testing.assert_close(ours[[0, 3, 5]], clean[[0, 3, 5]], atol=1e-12, rtol=0)


def test_blocks_are_balanced_over_the_finite_responses():
    """17 rewards, one of them nan: blocks of 6, 5, 5 over the other sixteen, no fallback."""
    rng = np.random.default_rng(11)
    clean = rng.normal(size=16)
    info = explain([*clean[:2], None, *clean[2:]], ["g"] * 17, CONTIGUOUS)
    assert not info.fallback.any()
    assert info.finite_size.tolist() == [16]
    assert info.size.tolist() == [17]
    theta = ref.reference("rovr", clean, ref.contiguous(16, 3))
    assert abs(info.reference.item() - theta) < 1e-10


def test_explicit_blocks_that_lose_a_member_fall_back():
    x = torch.as_tensor(np.random.default_rng(12).normal(size=(1, 16)))
    x[0, 5] = math.nan
    keep = torch.isfinite(x[0])
    ours = rovrl.ADVANTAGES["credit"](x, CONTIGUOUS, blocks=Blocks.contiguous(16, 3))[0]
    row = x[0][keep].numpy()
    np.testing.assert_allclose(ours[keep].numpy(), ref.credit(list(row), ref.m_center(row)), atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "rewards", [[0.7], [math.nan], [math.nan, 1.0], [math.inf, math.nan, 2.0, math.nan], [math.nan] * 16]
)
def test_groups_with_fewer_than_two_scores_have_no_advantage(method, rewards):
    x = torch.tensor(rewards, dtype=torch.float64)
    assert (rovrl.ADVANTAGES[method](x, RewardChannel()) == 0).all()
    assert (rovrl.grouped_advantages(x, [0] * len(rewards), RewardChannel(), method=method) == 0).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("value", [0.0, 1.0, 0.95, -3.7, 1e300, 5e-324, 0.1 + 0.2])
def test_tied_groups_have_no_advantage_at_all(method, value):
    for n in (2, 7, 8, 16):
        x = torch.full((3, n), value, dtype=torch.float64)
        assert (rovrl.ADVANTAGES[method](x, RewardChannel()) == 0).all()


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("method", METHODS)
def test_advantages_of_extreme_groups_are_finite(method):
    for size in (2, 3, 8, 9, 16):
        x = torch.as_tensor(extreme_groups(size))
        assert torch.isfinite(rovrl.ADVANTAGES[method](x, RewardChannel())).all()


def test_advantages_carry_no_gradient():
    x = torch.as_tensor(reward_groups(9, 16)).requires_grad_()
    ids = np.repeat(np.arange(9), 16)
    for method in METHODS:
        assert not rovrl.ADVANTAGES[method](x, RewardChannel()).requires_grad
        assert not rovrl.grouped_advantages(x.reshape(-1), ids, RewardChannel(), method=method).requires_grad


@pytest.mark.parametrize("method", METHODS)
def test_advantages_keep_leading_axes(method):
    x = torch.as_tensor(np.random.default_rng(0).normal(size=(2, 3, 16)))
    folded = rovrl.ADVANTAGES[method](x, LOCAL)
    assert folded.shape == x.shape
    torch.testing.assert_close(folded.reshape(6, 16), rovrl.ADVANTAGES[method](x.reshape(6, 16), LOCAL))


def test_explain_reports_the_pieces_the_advantages_are_made_of():
    rng = np.random.default_rng(13)
    groups = {"b": rng.normal(size=16), "a": np.full(16, 0.5), "c": rng.normal(size=4)}
    rewards = torch.as_tensor(np.concatenate(list(groups.values())))
    ids = [k for k, v in groups.items() for _ in v]
    info = explain(rewards, ids, CONTIGUOUS)
    assert torch.equal(info.advantages, rovrl.grouped_advantages(rewards, ids, CONTIGUOUS))
    assert info.group.tolist() == [0] * 16 + [1] * 16 + [2] * 4
    assert info.size.tolist() == [16, 16, 4]
    assert info.tied.tolist() == [False, True, False]
    assert info.fallback.tolist()[0::2] == [False, True]
    np.testing.assert_allclose(info.mean.numpy(), [v.mean() for v in groups.values()], atol=1e-12)
    divisor = info.scale[info.group]
    mapped = (rewards - info.reference[info.group]) / torch.sqrt(1 + (rewards - info.reference[info.group]) ** 2)
    torch.testing.assert_close(info.advantages, mapped / divisor, atol=1e-12, rtol=0)


def test_the_within_group_scale_is_the_median_over_untied_groups_of_the_whole_group_sandwich_scale():
    x = np.random.default_rng(14).normal(size=(7, 16)) * np.arange(1, 8)[:, None] * 0.1
    tied = np.full((20, 16), 1.0)
    rewards = torch.as_tensor(np.concatenate([tied, x]).reshape(-1))
    ids = np.repeat(np.arange(27), 16)
    whole = [ref.sandwich_scale(row, ref.m_center(row)) for row in x]
    assert abs(within_group_scale(rewards, ids, RewardChannel()) - ref.midpoint_median(whole)) < 1e-12


def test_one_bad_shape_or_name_is_refused_with_what_is_allowed():
    x = torch.zeros(4, 16)
    with pytest.raises(ValueError, match="group_ids"):
        rovrl.grouped_advantages(torch.zeros(5), [0] * 4, RewardChannel())
    with pytest.raises(ValueError, match="method") as refusal:
        rovrl.grouped_advantages(torch.zeros(4), [0] * 4, RewardChannel(), method="median")
    assert all(name in str(refusal.value) for name in METHODS)
    assert "median" in str(refusal.value)
    with pytest.raises(ValueError, match="rewards"):
        rovrl.grouped_advantages(x, [0] * 4, RewardChannel())
    with pytest.raises(ValueError, match=r"(?s)15.*16|16.*15"):
        rovrl.ADVANTAGES["credit"](x, RewardChannel(), blocks=Blocks.contiguous(15, 3))


def test_no_responses_have_no_advantages():
    assert rovrl.grouped_advantages(torch.zeros(0), [], RewardChannel()).shape == (0,)


def several():
    """Rewards of three functions for three groups of twelve, and their ids."""
    generator = torch.Generator().manual_seed(3)
    return torch.randn(36, 3, generator=generator, dtype=torch.float64), [i // 12 for i in range(36)]


def test_several_reward_functions_get_the_weighted_sum_of_their_credits():
    rewards, ids = several()
    weights = [1.0, 0.5, -2.0]
    parts = [rovrl.grouped_advantages(rewards[:, k], ids) for k in range(3)]
    expected = sum(weight * part for weight, part in zip(weights, parts, strict=True))
    torch.testing.assert_close(rovrl.grouped_advantages(rewards, ids, weights=weights), expected)
    info = rovrl.explain(rewards, ids, weights=torch.tensor(weights))
    assert len(info.parts) == 3
    torch.testing.assert_close(info.reference, sum(w * p.reference for w, p in zip(weights, info.parts, strict=True)))


def test_a_function_that_did_not_score_a_response_adds_nothing_to_it_and_changes_no_other_function():
    rewards, ids = several()
    gap = [[None if (i, k) == (5, 1) else float(rewards[i, k]) for k in range(3)] for i in range(36)]
    info = rovrl.explain(gap, ids, weights=[1, 1, 1])
    whole = rovrl.explain(rewards, ids, weights=[1, 1, 1])
    torch.testing.assert_close(info.advantages[5], (whole.parts[0].advantages + whole.parts[2].advantages)[5])
    assert bool(info.finite.all())
    assert info.parts[1].finite_size.tolist() == [11, 12, 12]
    assert torch.equal(info.advantages[12:], whole.advantages[12:])


def test_a_response_that_no_function_scored_is_unscored_and_tied_means_that_no_function_sees_a_contrast():
    rewards, ids = several()
    rewards[5] = float("nan")
    rewards[12:24] = 1.0
    rewards[24:, 0] = 1.0
    info = rovrl.explain(rewards, ids, weights=[1, 1, 1])
    assert info.finite.tolist() == [i != 5 for i in range(36)]
    assert info.finite_size.tolist() == [11, 12, 12]
    assert info.tied.tolist() == [False, True, False]
    assert info.advantages[5] == 0
    assert bool((info.advantages[12:24] == 0).all())


@pytest.mark.parametrize("weights", [[1.0], [1.0, 2.0, float("nan")], [], "abc", 1.0])
def test_weights_that_do_not_fit_the_functions_are_refused(weights):
    with pytest.raises(ValueError, match="one finite number per reward function"):
        rovrl.grouped_advantages(*several(), weights=weights)


def test_weights_without_functions_and_functions_without_weights_are_refused():
    rewards, ids = several()
    with pytest.raises(ValueError, match="weights"):
        rovrl.grouped_advantages(rewards, ids)
    with pytest.raises(ValueError, match=r"\[response, function\]"):
        rovrl.grouped_advantages(rewards[:, 0], ids, weights=[1.0])


@pytest.mark.parametrize("name", list(rovrl.REFERENCES))
@pytest.mark.parametrize("size", [16, 9])
def test_the_credit_is_measured_from_the_reference_that_the_channel_names(name, size):
    x = torch.randn(20, size, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    x[3] = 0.1  # the mean of sixteen tenths is not a tenth
    channel = RewardChannel(reference=name, replaced_per_block=0)
    info = explain(x.flatten(), torch.arange(20).repeat_interleave(size), channel)
    expected = rovrl.REFERENCES[name](x, info.blocks[size], info.channel)
    torch.testing.assert_close(info.reference, expected)
    residual = x - expected.unsqueeze(-1)
    shaped = residual / (1 + residual**2).sqrt()
    scale = (1e-6 + (shaped**2).mean(-1, keepdim=True)).sqrt()
    torch.testing.assert_close(rovrl.ADVANTAGES["credit"](x, channel), shaped / scale, atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(rovrl.ADVANTAGES["credit"](x, channel).flatten(), info.advantages)
    for method in ("credit", "center", "loo"):
        assert bool((rovrl.ADVANTAGES[method](x, channel)[3] == 0).all())


@pytest.mark.parametrize("name", list(rovrl.REFERENCES))
def test_leave_one_out_takes_the_named_reference_of_the_others(name):
    x = torch.randn(6, 13, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    channel = RewardChannel(reference=name, partition="contiguous", scale_source="local")
    for i in range(13):
        others = torch.cat((x[:, :i], x[:, i + 1 :]), -1)
        reference = rovrl.REFERENCES[name](others, rovrl.Blocks.contiguous(12, 3), channel)
        scale = (1e-6 + ((others - reference.unsqueeze(-1)) ** 2).mean(-1)).sqrt()
        torch.testing.assert_close(rovrl.ADVANTAGES["loo"](x, channel)[:, i], (x[:, i] - reference) / scale)


def test_an_unknown_reference_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=f"reference must be one of {', '.join(rovrl.REFERENCES)}, not 'median'"):
        RewardChannel(reference="median")


@pytest.mark.parametrize(
    ("ids", "sentence"),
    [
        ([0, 0, float("nan"), float("nan")], r"group_ids\[2\] is nan"),
        ("abcd", "not the text 'abcd'"),
        (np.array([1.0, 1.0, np.nan, 2.0]), r"group_ids\[2\] is nan"),
    ],
)
def test_ids_that_would_silently_make_groups_of_one_are_refused(ids, sentence):
    with pytest.raises(ValueError, match=sentence):
        rovrl.grouped_advantages([1.0, 0.0, 1.0, 0.0], ids, RewardChannel())


@pytest.mark.parametrize("kernel", ["eager", "numba"])
@pytest.mark.parametrize("method", list(ADVANTAGES))
def test_rewards_near_the_largest_number_have_finite_advantages_of_the_right_sign(method, kernel):
    """Leave-one-out was infinite from 1e306 on, and GRPO's advantages of ±1.79e308 were all 0."""
    x = torch.tensor([[1e306] + [0.0] * 7, [1.79e308, -1.79e308] * 4], dtype=torch.float64)
    with use_kernel(kernel):
        found = ADVANTAGES[method](x, RewardChannel())
    assert found.isfinite().all()
    assert found[0, 0] > 1
    assert found[1].sign().tolist() == [1, -1] * 4
