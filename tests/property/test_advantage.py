"""The theorems about the bounded credit, attacked by hypothesis."""

import math

import numpy as np
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

import rovrl
from rovrl import RewardChannel

SCORES = st.one_of(
    st.sampled_from([0.0, 1.0, 0.95, 1e3, -1e12, 1e300, -1e300, 5e-324]),
    st.integers(-64, 64).map(lambda k: k / 16),
    st.floats(-1e3, 1e3),
)
MILD = st.integers(-64, 64).map(lambda k: k / 16)
GROUPS = st.lists(SCORES, min_size=1, max_size=20)
PLAIN = RewardChannel(partition="contiguous")


def credit(x, channel=PLAIN, **options):
    return rovrl.ADVANTAGES["credit"](torch.as_tensor(np.asarray(x, dtype=np.float64)), channel, **options)


@given(GROUPS, st.floats(1e-3, 1e3), st.floats(1e-4, 10.0))
def test_credit_is_bounded_whatever_the_magnitude(x, kappa, floor):
    """eq:credit_global_bound."""
    a = credit(x, RewardChannel(credit_bound=kappa, credit_floor=floor))
    assert torch.isfinite(a).all()
    assert a.abs().max() <= min(kappa / floor, math.sqrt(len(x))) * (1 + 1e-12)


@given(GROUPS)
def test_adaptive_credit_is_bounded_whatever_the_magnitude(x):
    """kappa / s_min = 2 / 0.6 (more only where the scale sits on its floor of 1e-6), and the root of the group size."""
    a = credit(x, RewardChannel(credit_bound="adaptive", credit_floor="adaptive"))
    assert torch.isfinite(a).all()
    assert a.abs().max() <= math.sqrt(len(x)) * (1 + 1e-12)


@given(st.lists(MILD, min_size=2, max_size=20))
def test_credit_has_the_sign_of_the_residual_and_keeps_the_order_of_the_rewards(x):
    a = credit(x)
    order = np.argsort(x, kind="stable")
    assert (np.diff(a.numpy()[order]) >= 0).all()
    for i in range(len(x)):
        for j in range(len(x)):
            if x[i] > x[j]:
                assert a[i] > a[j]
            if x[i] == x[j]:
                assert a[i] == a[j]


@given(st.lists(MILD, min_size=2, max_size=20), st.integers(-4096, 4096))
def test_credit_does_not_see_a_common_shift(x, k):
    shifted = credit(np.asarray(x) + k / 4)
    # the reference moves exactly up to 1e-9, and the least credit scale is 1e-3
    np.testing.assert_allclose(shifted.numpy(), credit(x).numpy(), atol=2e-6)


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=20))
def test_binary_groups_have_mirrored_credit_after_exchanging_zeros_and_ones(x):
    mirrored = credit(1 - np.asarray(x))
    np.testing.assert_allclose(mirrored.numpy(), -credit(x).numpy(), atol=1e-7)


@given(st.lists(MILD, min_size=9, max_size=20), st.data())
def test_an_unchanged_response_keeps_its_sign_when_its_residual_exceeds_the_move_of_the_reference(x, data):
    """prop:credit_stability's last sentence."""
    i = data.draw(st.integers(0, len(x) - 1))
    y = list(x)
    y[i] = data.draw(SCORES)
    ids = ["g"] * len(x)
    before = rovrl.advantage.explain(torch.tensor(x, dtype=torch.float64), ids, PLAIN)
    after = rovrl.advantage.explain(torch.tensor(y, dtype=torch.float64), ids, PLAIN)
    moved = abs((after.reference - before.reference).item())
    for j in range(len(x)):
        if j != i and abs(x[j] - before.reference.item()) > moved * (1 + 1e-9) + 1e-12:
            assert torch.sign(after.advantages[j]) == torch.sign(before.advantages[j])


@given(st.lists(MILD, min_size=9, max_size=20), st.data())
def test_credit_moves_no_further_than_its_stability_bound(x, data):
    """eq:credit_stability with the realised displacement of the reference."""
    i = data.draw(st.integers(0, len(x) - 1))
    y = list(x)
    y[i] = data.draw(SCORES)
    channel = RewardChannel(partition="contiguous", credit_floor=0.1)
    before = rovrl.advantage.explain(torch.tensor(x, dtype=torch.float64), ["g"] * len(x), channel)
    after = rovrl.advantage.explain(torch.tensor(y, dtype=torch.float64), ["g"] * len(x), channel)
    e_theta = abs((after.reference - before.reference).item())
    e_s = (1 / len(x) + 2 * e_theta) / (2 * 0.1)
    assert abs((after.scale - before.scale).item()) <= e_s + 1e-9
    for j in range(len(x)):
        d = min(abs(x[j] - y[j]) + e_theta, 2.0)
        gap = abs((after.advantages[j] - before.advantages[j]).item())
        assert gap <= d / 0.1 + e_s / 0.1**2 + 1e-9


@given(st.lists(MILD, min_size=4, max_size=20), st.integers(0, 10**6))
def test_rows_may_come_in_any_order_when_the_reference_is_global(x, seed):
    order = np.random.default_rng(seed).permutation(len(x))
    channel = RewardChannel(failure_unit=None)
    np.testing.assert_allclose(
        credit(np.asarray(x)[order], channel).numpy(), credit(x, channel).numpy()[order], atol=1e-6
    )


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), SCORES), min_size=1, max_size=40),
    st.sampled_from(["grpo", "center", "loo", "credit"]),
)
def test_ragged_groups_agree_with_each_group_alone(rows, method):
    ids, rewards = [r[0] for r in rows], [r[1] for r in rows]
    channel = RewardChannel(partition="contiguous", scale_source="local")
    together = rovrl.grouped_advantages(torch.tensor(rewards, dtype=torch.float64), ids, channel, method=method)
    assert torch.isfinite(together).all()
    for g in set(ids):
        where = [k for k, i in enumerate(ids) if i == g]
        alone = rovrl.ADVANTAGES[method](torch.tensor([rewards[k] for k in where], dtype=torch.float64), channel)
        torch.testing.assert_close(together[where], alone, rtol=1e-9, atol=1e-9)


@given(st.lists(st.one_of(MILD, st.sampled_from([math.nan, math.inf, -math.inf])), min_size=1, max_size=20))
def test_non_finite_rewards_get_zero_and_alter_nothing(x):
    x = np.asarray(x, dtype=np.float64)
    keep = np.isfinite(x)
    a = credit(x).numpy()
    assert (a[~keep] == 0).all()
    assume(keep.any())
    np.testing.assert_array_equal(a[keep], credit(x[keep]).numpy())


@given(st.lists(MILD, min_size=2, max_size=16), st.integers(0, 15), st.sampled_from([1e3, 1e6, 1e12]))
def test_grpo_stays_bounded_and_sums_to_zero_but_loses_the_clean_contrast(x, i, spike):
    """prop:grpo_broadcast, with the sample deviation: |A| <= (G-1)/sqrt(G)."""
    x = np.asarray(x, dtype=np.float64)
    i %= len(x)
    x[i] = spike
    a = rovrl.ADVANTAGES["grpo"](torch.as_tensor(x), PLAIN)
    G = len(x)
    assert a.abs().max() <= (G - 1) / math.sqrt(G) + 1e-9
    assert abs(a.sum()) < 1e-9
    clean = np.delete(a.numpy(), i)
    if G > 2:
        assert np.ptp(clean) <= 8 / (spike / math.sqrt(G)) * 1.1
