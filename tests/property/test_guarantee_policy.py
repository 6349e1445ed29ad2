"""What reaches the update, against the clipped objective, its autograd gradient, and exact enumeration of a softmax bandit."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rovrl import ADVANTAGES, Blocks, RewardChannel, clip_branch, clipped_objective, rovr
from rovrl import guarantees as g
from rovrl.credit import credit_map
from rovrl.diagnostics import sign_flips
from rovrl.groups import partition
from rovrl.robust.location import whole_scale
from rovrl.robust.spread import spread
from rovrl.weight import gspo_mean

BAND = {"clip_low": 0.2, "clip_high": 0.3}
CREDIT = RewardChannel(scale_source=0.5)


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


@given(st.floats(-5, 5), st.floats(0, 5), st.floats(-1, 1))
def test_a_weight_never_leaves_its_relative_error(m, e, where):
    ratio = math.exp((m + where * e) - m)
    error = g.weight_error(e)
    assert error.low * (1 - 1e-12) <= ratio <= error.high * (1 + 1e-12)
    assert abs(ratio - 1) <= error.relative * (1 + 1e-12) + 1e-14
    assert math.exp(e) - 1 == pytest.approx(error.relative, rel=1e-9, abs=1e-15)  # attained upwards


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=40), st.lists(st.floats(-5, 5), max_size=10))
def test_a_burst_multiplies_gspos_weight_by_its_ratio(tokens, burst):
    burst = burst[: len(tokens)]
    before, after = tensor(tokens), tensor(tokens)
    after[: len(burst)] += tensor(burst)
    ratio = math.exp(float(gspo_mean(after) - gspo_mean(before)))
    assert ratio == pytest.approx(g.burst_ratio(burst, len(tokens)), rel=1e-12)


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(0, 0.5), st.sampled_from([-1.0, 1.0])), min_size=1, max_size=30))
def test_no_log_weight_within_its_error_changes_branch_uncounted(rows):
    m, e, sign = (tensor(v) for v in zip(*rows, strict=True))
    # a branch is defined for a sign of the advantage; the boundary counts for both
    for advantage in (torch.ones_like(m), -torch.ones_like(m)):
        flips = clip_branch(m + sign * e, advantage, **BAND) != clip_branch(m, advantage, **BAND)
        assert int(flips.sum()) <= g.ratio_flips(m, e, **BAND)


def test_every_counted_boundary_can_be_crossed():
    m, error = torch.linspace(-1, 1, 2001, dtype=torch.float64), 0.1
    bounds = (math.log(0.8), math.log(1.3))
    crossed = sum(
        any(min(x, x + s * error) < b < max(x, x + s * error) for b in bounds for s in (-1, 1)) for x in m.tolist()
    )
    assert crossed <= g.ratio_flips(m, error, **BAND) <= crossed + 2


@given(st.data())
def test_no_reward_within_its_error_changes_sign_uncounted(data):
    group = data.draw(st.integers(9, 16))
    clean = tensor(data.draw(st.lists(st.floats(-2, 2), min_size=group, max_size=group)))
    attacked = clean.clone()
    for i in data.draw(st.sets(st.integers(0, group - 1), max_size=3)):
        attacked[i] = data.draw(st.floats(-3, 3) | st.sampled_from([1e300, -1e300]))
    blocks = Blocks.contiguous(group, 3)
    reference, moved = (float(rovr(x, blocks, CREDIT)) for x in (clean, attacked))
    before, after = (ADVANTAGES["credit"](x, CREDIT, blocks=blocks) for x in (clean, attacked))
    most = g.sign_flips(clean, reference, (attacked - clean).abs(), abs(moved - reference))
    assert int(sign_flips(after, before).sum()) <= most
    counts = g.flip_counts([0.0] * group, 0.0, clean, reference, (attacked - clean).abs(), abs(moved - reference))
    assert counts == g.FlipCounts(ratio=0, sign=most)


def test_every_counted_sign_can_change():
    rewards = torch.linspace(-1, 1, 201, dtype=torch.float64) + 1e-4
    counted = g.sign_flips(rewards, 0.0, 0.0, 0.25)
    flipped = max(int((rewards * (rewards - s * 0.25) < 0).sum()) for s in (-1, 1))
    assert counted == int((rewards.abs() <= 0.25).sum())
    assert flipped == pytest.approx(counted / 2, abs=1)  # one direction of the reference reaches one side


numbers_ = st.floats(-2, 2)


@given(numbers_, numbers_, numbers_, numbers_)
def test_the_clipped_objective_moves_no_more_than_the_value_bound(m, A, m2, A2):
    L = max(abs(m), abs(m2))
    moved = abs(
        float(clipped_objective(tensor(m2), tensor(A2), **BAND) - clipped_objective(tensor(m), tensor(A), **BAND))
    )
    for weight_bound in (None, math.exp(max(m, m2))):
        bound = g.policy_value(
            abs(A2 - A),
            abs(m2 - m),
            advantage_bound=abs(A),
            log_weight_bound=L,
            weight_bound=weight_bound,
            clip_high=0.3,
        )
        assert moved <= bound * (1 + 1e-12) + 1e-14


def test_the_value_bound_is_attained_on_the_unclipped_branch():
    # a negative advantage is never clipped from above, so q = e^L counts in full
    m, A, e_m, e_A = 1.0, -2.0, 1e-4, 1e-3
    moved = abs(float(clipped_objective(tensor(m), tensor(A - e_A)) - clipped_objective(tensor(m - e_m), tensor(A))))
    bound = g.policy_value(e_A, e_m, advantage_bound=2.0, log_weight_bound=m)
    assert 0.999 * bound <= moved <= bound


def gradient(weights: torch.Tensor, features: torch.Tensor, A: float) -> tuple[torch.Tensor, float]:
    """∇ of the clipped objective through m = tanh(w·x), and m."""
    w = weights.clone().requires_grad_()
    m = torch.tanh(w @ features)
    (grad,) = torch.autograd.grad(clipped_objective(m, tensor(A), **BAND), w)
    return grad, float(m.detach())


def jacobian(weights: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
    return (1 - torch.tanh(weights @ features) ** 2) * features


@given(st.lists(st.tuples(numbers_, numbers_), min_size=3, max_size=3), numbers_, numbers_)
def test_the_autograd_gradient_moves_no_more_than_the_gradient_bound_on_one_branch(pairs, A, A2):
    w = tensor([0.4, -0.3, 0.2])
    x, x2 = (tensor(v) for v in zip(*pairs, strict=True))
    (grad, m), (grad2, m2) = gradient(w, x, A), gradient(w, x2, A2)
    branches = [int(clip_branch(tensor(mm), tensor(AA), **BAND)) for mm, AA in ((m, A), (m2, A2))]
    if A * A2 <= 0 or branches[0] != branches[1]:
        return  # the premise: one sign, one branch
    J, J2 = jacobian(w, x), jacobian(w, x2)
    bound = g.policy_gradient(
        abs(A2 - A),
        abs(m2 - m),
        float((J2 - J).norm()),
        advantage_bound=abs(A),
        log_weight_bound=max(abs(m), abs(m2)),
        jacobian_bound=float(J.norm()),
    )
    assert float((grad2 - grad).norm()) <= bound * (1 + 1e-9) + 1e-14


def test_the_gradient_bound_is_attained_by_a_move_along_the_jacobian():
    m, A, J, e_m, e_A, e_J = 0.2, 1.5, 2.0, 1e-4, 1e-4, 1e-4
    moved = (A + e_A) * math.exp(m) * (J + e_J) - A * math.exp(m - e_m) * J
    bound = g.policy_gradient(e_A, e_m, e_J, advantage_bound=A, log_weight_bound=m, jacobian_bound=J)
    assert 0.999 * bound <= moved <= bound


# ------------------------------------------------------------------------------ a softmax bandit, enumerated exactly
def outcomes(logits: torch.Tensor, group: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """All draws [outcome, group], their probabilities, and ∇log π of each drawn arm [outcome, group, arm]."""
    policy = torch.softmax(logits, -1)
    arms = torch.tensor(list(itertools.product(range(len(logits)), repeat=group)))
    score = torch.eye(len(logits), dtype=torch.float64)[arms] - policy
    return arms, policy[arms].prod(-1), score


def leave_one_out(rewards: torch.Tensor, channel: RewardChannel) -> tuple[torch.Tensor, torch.Tensor]:
    """θ̂_{R,-i} and S_{-i} of each response, from eq:loo_advantage with the channel's blocks over the other G - 1."""
    group = rewards.shape[-1]
    thetas, scales = [], []
    for i in range(group):
        rest = torch.cat([rewards[:, :i], rewards[:, i + 1 :]], -1)
        cut = Blocks.contiguous(group - 1, 3 if group - 1 >= 9 else 1)
        theta = rovr(rest, cut, channel)
        thetas.append(theta)
        scales.append((channel.credit_floor**2 + ((rest - theta[:, None]) ** 2).mean(-1)).sqrt())
    return torch.stack(thetas, -1), torch.stack(scales, -1)


BANDITS = [(tensor([0.3, -0.5, 0.1]), tensor([1.0, 0.0, 0.4]), 4), (tensor([0.4, -0.4]), tensor([1.0, -0.5]), 10)]


@pytest.mark.parametrize(("logits", "arm_rewards", "group"), BANDITS)
def test_leave_one_out_advantages_point_along_the_policy_gradient_with_weight_w(logits, arm_rewards, group):
    """thm:crossfit_baseline with no sampling error: every outcome is counted with its probability."""
    channel = RewardChannel(scale_source=0.5, credit_floor=0.3, partition="contiguous")
    arms, probability, score = outcomes(logits, group)
    rewards = arm_rewards[arms]
    advantages = ADVANTAGES["loo"](rewards, channel)
    tied = rewards.amin(-1) == rewards.amax(
        -1
    )  # a group without contrast gets 0; the theorem's estimator does not stop there
    theta, scale = leave_one_out(rewards, channel)
    linear = (rewards - theta) / scale
    assert torch.allclose(advantages[~tied], linear[~tied], atol=1e-12)
    assert torch.allclose(linear[tied], tensor(0.0), atol=1e-12)
    estimate = (probability[:, None] * (score * linear.unsqueeze(-1)).mean(1)).sum(0)
    policy = torch.softmax(logits, -1)
    truth = policy * (arm_rewards - policy @ arm_rewards)
    assert torch.allclose(estimate, g.crossfit_weight(scale, probability) * truth, atol=1e-12)


DEFAULTS = {
    "10": (10, {}),  # the other 9 in blocks of 3, which "auto" does not trust with a scale of their own
    "11": (11, {}),
    "8 without replacements": (8, {"replaced_per_block": 0}),
    "lagged": (10, {"scale_source": "lagged"}),
    "adaptive": (7, {"credit_bound": "adaptive", "credit_floor": "adaptive"}),
}


def from_the_others(rest: torch.Tensor, channel: RewardChannel) -> tuple[float, float]:
    """θ̂_{R,-i} and S_{-i} from one row of other rewards and nothing else: its own scale as a pilot, its own spread."""
    blocks, _ = partition(len(rest), channel)
    nu = float(whole_scale(rest[None], channel).clamp(min=channel.scale_floor))
    theta = float(rovr(rest, blocks, replace(channel, scale_source=nu)))
    adaptive = spread([rest[None]]) or 1.0  # of equal rewards nothing is known
    floor = adaptive if channel.credit_floor == "adaptive" else channel.credit_floor
    return theta, math.sqrt(floor**2 + float(((rest - theta) ** 2).mean()))


@pytest.mark.parametrize(
    "name", [n if n.startswith("8") else pytest.param(n, marks=pytest.mark.slow) for n in DEFAULTS]
)
def test_leave_one_out_at_the_default_settings_sees_nothing_of_its_own_reward(name):
    """thm:crossfit_baseline, one prompt per call, every outcome: E[∇log π(Y_i) θ̂_{-i}/S_{-i}] = 0 to rounding."""
    group, settings = DEFAULTS[name]
    channel, logits, arm_rewards = RewardChannel(**settings), tensor([0.4, -0.4]), tensor([1.0, -0.5])
    arms, probability, score = outcomes(logits, group)
    rewards = arm_rewards[arms]
    advantages = torch.stack([ADVANTAGES["loo"](row, channel) for row in rewards])
    known = {
        rest: from_the_others(tensor(rest), channel)
        for rest in itertools.product(arm_rewards.tolist(), repeat=group - 1)
    }
    parts = [[known[(*row[:i], *row[i + 1 :])] for i in range(group)] for row in map(tuple, rewards.tolist())]
    theta, scale = tensor(parts).unbind(-1)
    assert torch.allclose(advantages, (rewards - theta) / scale, rtol=1e-9, atol=1e-9)
    implied = rewards / scale - advantages  # θ̂/S as the advantage has it
    leaked = (probability[:, None, None] * score * implied.unsqueeze(-1)).sum(0)
    assert float((leaked * scale.min()).abs().max()) < 1e-12  # before: 0.0058 at G = 10


@given(st.data())
def test_a_leave_one_out_advantage_is_affine_in_its_own_reward(data):
    group = data.draw(st.integers(4, 16))
    settings = {"replaced_per_block": data.draw(st.sampled_from([0, 1]))}
    settings |= data.draw(st.sampled_from([{}, {"scale_source": "lagged"}, {"credit_floor": "adaptive"}]))
    prompts, i = data.draw(st.integers(1, 3)), data.draw(st.integers(0, group - 1))
    x = tensor(
        data.draw(
            st.lists(st.lists(st.floats(-2, 2), min_size=group, max_size=group), min_size=prompts, max_size=prompts)
        )
    )
    values = []
    for own in (0.0, 1.0, 3.0):
        x[0, i] = own
        values.append(float(ADVANTAGES["loo"](x, RewardChannel(**settings))[0, i]))
    a, b, c = values
    assert (c - a) == pytest.approx(3 * (b - a), rel=1e-9, abs=1e-9 * max(map(abs, values)))


@pytest.mark.parametrize(("logits", "arm_rewards", "group"), BANDITS)
@pytest.mark.parametrize("kappa", [0.3, 1.0, 5.0])
def test_shaping_the_numerator_distorts_the_direction_no_more_than_its_bound(logits, arm_rewards, group, kappa):
    channel = RewardChannel(scale_source=0.5, credit_floor=0.3)
    arms, probability, score = outcomes(logits, group)
    theta, scale = leave_one_out(arm_rewards[arms], channel)
    U = arm_rewards[arms] - theta
    for i in range(group):
        shaped = (credit_map(U[:, i], kappa) - U[:, i]) / scale[:, i]
        distortion = (probability[:, None] * score[:, i] * shaped[:, None]).sum(0).norm()
        moment = float((probability * score[:, i].norm(dim=-1) * U[:, i].abs() ** 3).sum())
        assert float(distortion) <= g.gradient_distortion(moment, kappa, float(scale.min())) * (1 + 1e-9)


def test_the_distortion_bound_is_attained_by_a_wide_bound_and_aligned_scores():
    """Two arms, one parameter, a baseline between their rewards: every term pushes the same way."""
    p, kappa = 0.3, 20.0
    scores, U = tensor([1 - p, -p]), tensor([0.6, -0.4])
    weights = tensor([p, 1 - p])
    distortion = abs(float((weights * scores * (credit_map(U, kappa) - U)).sum()))
    moment = float((weights * scores.abs() * U.abs() ** 3).sum())
    assert 0.99 * g.gradient_distortion(moment, kappa, 1.0) <= distortion <= g.gradient_distortion(moment, kappa, 1.0)
