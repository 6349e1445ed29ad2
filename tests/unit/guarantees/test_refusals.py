"""What no calculator accepts: arguments outside its premises, each refused in a sentence that names the argument."""

import inspect
import math
import subprocess
import sys

import numpy as np
import pytest
import torch

from rovrl import Blocks, RewardChannel
from rovrl import guarantees as g

CREDIT = {"num_levels": 9, "scale_cap": 1.0, "credit_bound": 1.0, "credit_floor": 0.1}
POLICY = {"advantage_bound": 1.0, "log_weight_bound": 0.1}
SMOOTH = {"n": 4, "num_levels": 9, "temperature": 0.01, "scale_cap": 1.0}
REFUSED = [
    ("num_levels", lambda: g.outer_factor(0)),
    ("num_levels", lambda: g.outer_factor(2.5)),
    ("num_levels", lambda: g.outer_factor(True)),
    ("sizes", lambda: g.effective_sample_size(())),
    ("sizes", lambda: g.effective_sample_size(16)),
    ("sizes[1]", lambda: g.effective_sample_size((3, 0))),
    ("n", lambda: g.resolution(0)),
    ("t", lambda: g.block_tail(0.0, 5, 1, 0.5, 1.0)),
    ("t", lambda: g.block_tail(math.nan, 5, 1, 0.5, 1.0)),
    ("t", lambda: g.block_tail(math.inf, 5, 1, 0.5, 1.0)),
    ("t", lambda: g.block_tail(1.5, 5, 1, 0.5, 1.0, radius=1.0)),
    ("t", lambda: g.block_tail("1", 5, 1, 0.5, 1.0)),
    ("t", lambda: g.block_tail(np.array([1.0, 2.0]), 5, 1, 0.5, 1.0)),
    ("a", lambda: g.block_tail(1.0, 5, 1, -0.5, 1.0)),
    ("a", lambda: g.block_tail(3.0, 6, 1, 2.0, 1.0)),  # no score is steeper than 1/c²
    ("a", lambda: g.block_tail(3.0, 6, 1, 0.5, 1.0)),  # no mean score passes 1/c
    ("a", lambda: g.block_tail(1.0, 6, 1, 0.5, 1.0, radius=3.0)),
    ("a", lambda: g.reference_failure(0.1, (5, 5, 5), 1, 1, 2.0, 1.0)),
    ("a", lambda: g.reference_failure(3.0, (5, 5, 5), 1, 1, 0.5, 1.0)),
    ("a", lambda: g.partition_failure(0.1, (5, 5, 5), 2, 2.0, 1.0, 0.05)),
    ("a", lambda: g.finite_credit(0.1, (5, 5, 5), 1, 1, 2.0, 1.0, **CREDIT)),
    ("radius", lambda: g.block_tail(1.0, 6, 1, 0.5, 1.0, radius=math.inf)),
    ("score_width", lambda: g.block_tail(1.0, 5, 1, 0.5, 0.0)),
    ("replaced", lambda: g.block_tail(1.0, 5, 6, 0.5, 1.0)),
    ("replaced", lambda: g.block_tail(1.0, 5, -1, 0.5, 1.0)),
    ("arbitrary", lambda: g.reference_failure(1.0, (5, 5, 5), 1, 2, 0.5, 1.0)),
    ("arbitrary", lambda: g.reference_failure(1.0, (5, 5, 5, 5), 1, 2, 0.5, 1.0)),
    ("arbitrary", lambda: g.reference_failure(1.0, (5, 5, 5), 1, [0], 0.5, 1.0)),
    ("replaced", lambda: g.reference_failure(1.0, (5, 5, 5), 6, 1, 0.5, 1.0)),
    ("replaced", lambda: g.reference_failure(1.0, (5, 5, 5), (1, 1), 1, 0.5, 1.0)),
    ("replaced", lambda: g.reference_failure(1.0, (5, 5, 5), 1.5, 1, 0.5, 1.0)),
    ("replaced[2]", lambda: g.reference_failure(1.0, (5, 5, 5), (1, 1, 6), 1, 0.5, 1.0)),
    ("t", lambda: g.reference_failure(2.0, (5, 5, 5), 1, 1, 0.5, 1.0, radius=1.0)),
    ("corrupted", lambda: g.partition_failure(1.0, (5, 5, 5), 16, 0.5, 1.0, 0.05)),
    ("delta", lambda: g.partition_failure(1.0, (5, 5, 5), 2, 0.5, 1.0, 0.0)),
    ("delta", lambda: g.partition_failure(1.0, (5, 5, 5), 2, 0.5, 1.0, 1.0)),
    ("deviation", lambda: g.partition_load(0.0, (5, 5))),
    ("scale_cap", lambda: g.correction_envelope((5, 5), 9, 0.0)),
    ("curvature", lambda: g.block_replacement(10, 1, 0.0, 1.0)),
    ("curvature", lambda: g.block_replacement(10, 1, 1.1, 1.0)),
    ("replaced", lambda: g.block_replacement(10, 11, 0.5, 1.0)),
    ("credit_floor", lambda: g.credit_bound(1.0, 0.0, 16)),
    ("group", lambda: g.credit_bound(1.0, 0.1, 0)),
    ("reward_error", lambda: g.credit_stability(-1.0, 0.0, 1, 16, 1.0, 0.1)),
    ("reward_error", lambda: g.credit_stability(math.nan, 0.0, 1, 16, 1.0, 0.1)),
    ("reference_error", lambda: g.credit_stability(0.0, -0.1, 1, 16, 1.0, 0.1)),
    ("replaced", lambda: g.credit_stability(0.0, 0.0, 17, 16, 1.0, 0.1)),
    ("credit_bound", lambda: g.credit_stability(0.0, 0.0, 1, 16, "adaptive", 0.1)),
    ("correction", lambda: g.finite_credit(1.0, (5, 5, 5), 1, 1, 0.5, 1.0, correction=99.0, **CREDIT)),
    ("replaced", lambda: g.finite_credit(1.0, (5, 5, 5), 1, 1, 0.5, 1.0, differing=16, **CREDIT)),
    ("reward_gap", lambda: g.contrast_retention(2.1, 1.0, 1.0, 0.1)),
    ("residual", lambda: g.credit_fidelity(math.inf, 1.0)),
    ("curvature", lambda: g.functional_bias(0.1, 0.0)),
    ("curvature", lambda: g.third_moment_bias(1.0, 1.5, 1.0)),
    ("third_moment", lambda: g.third_moment_bias(-1.0, 0.5, 1.0)),
    ("fraction", lambda: g.contamination_bias(1.0, 0.5, 1.0)),
    ("curvature", lambda: g.contamination_bias(0.1, 0.5, 2.0)),
    ("scale", lambda: g.oracle_variance(0.0, (5, 5), 9)),
    ("standard_deviation", lambda: g.mean_efficiency(math.inf, 1.0, 9)),
    ("s", lambda: g.composite_score(0.0, 0.0, 9)),
    ("margin", lambda: g.smoothing(-1.0, 0.01, 1.0, (4, 4), 9)),
    ("temperature", lambda: g.smoothing(0.1, 0.0, 1.0, (4, 4), 9)),
    ("density_bound", lambda: g.expected_smoothing(0.0, 0.01, 1.0, (4, 4), 9)),
    ("centers", lambda: g.smoothing_margin([0.0, 1.0, 2.0], (4, 4), 1.0, 9)),
    ("scale_distance", lambda: g.lipschitz(0.1, 1.1, **SMOOTH)),
    ("center_distance", lambda: g.lipschitz(-0.1, 0.1, **SMOOTH)),
    ("log_error", lambda: g.weight_error(-1.0)),
    ("log_errors", lambda: g.ratio_flips([0.0, 0.1], [0.1])),
    ("clip_low", lambda: g.ratio_flips([0.0], 0.1, clip_low=1.0)),
    ("log_weights[1]", lambda: g.ratio_flips([0.0, math.nan], 0.1)),
    ("reward_errors[0]", lambda: g.sign_flips([0.0, 1.0], 0.5, [-1.0, 0.0], 0.1)),
    ("advantage_error", lambda: g.policy_value(-0.1, 0.1, **POLICY)),
    ("weight_bound", lambda: g.policy_value(0.1, 0.1, weight_bound=0.0, **POLICY)),
    ("jacobian_error", lambda: g.policy_gradient(0.1, 0.1, math.nan, jacobian_bound=1.0, **POLICY)),
    ("perturbations", lambda: g.burst_ratio([0.1, 0.2, 0.3], 2)),
    ("length", lambda: g.burst_ratio([], 0)),
    ("scales", lambda: g.crossfit_weight([1.0, 0.0])),
    ("scales", lambda: g.crossfit_weight([])),
    ("probabilities", lambda: g.crossfit_weight([[1.0], [2.0]], [0.5, 0.6])),
    ("probabilities", lambda: g.crossfit_weight([[1.0], [2.0]], [1.0])),
    ("weighted_third_moment", lambda: g.gradient_distortion(-1.0, 1.0, 0.1)),
    ("rewards", lambda: g.grpo_spike([1.0], 0, 1.0)),
    ("rewards[1]", lambda: g.grpo_spike([1.0, math.inf], 0, 1.0)),
    ("index", lambda: g.grpo_spike([1.0, 2.0], 2, 1.0)),
    ("floor", lambda: g.grpo_spike([1.0, 2.0], 0, 1.0)),
    ("group", lambda: g.grpo_limit(1)),
    ("spike", lambda: g.center_only_clean_bound(1.0, 1.0, 1.0)),
    ("linear_scale", lambda: g.scale_construction(1.0, 1.0, 0.0, 1.0)),
    ("law", lambda: g.m_functional([], 1.0)),
    ("law[1]", lambda: g.m_functional([0.0, math.nan], 1.0)),
    ("weights", lambda: g.m_functional([0.0, 1.0], 1.0, [1.0])),
    ("weights", lambda: g.m_functional([0.0, 1.0], 1.0, [1.0, -1.0])),
    ("weights", lambda: g.m_functional(lambda u: u, 1.0, [1.0])),
    ("t", lambda: g.separation([0.0, 1.0], 0.0, 1.0)),
    ("a", lambda: g.entropy_block_tail(3.0, 6, 1, 0.5, 1.0)),
    ("replaced", lambda: g.sharp_block_tail(1.0, 5, 6, 0.5, 1.0)),
    ("arbitrary", lambda: g.sharp_reference_failure(1.0, (5, 5, 5), 1, 2, 0.5, 1.0)),
    ("tails", lambda: g.sharp_reference_failure(1.0, (5, 5, 5), 1, 1, 0.5, 1.0, tails="normal")),
    ("corrupted", lambda: g.sharp_partition_failure(1.0, (5, 5, 5), 16, 0.5, 1.0)),
    ("delta", lambda: g.exact_loads((5, 5, 5), 2, 1.0)),
    ("scale_cap", lambda: g.sharp_correction_envelope((5, 5), 9, 0.0)),
    ("sizes", lambda: g.breakdown(())),
    ("replaced", lambda: g.credit_certificate(torch.zeros(4), 0.0, 4, 0.1, 1.0, 0.1)),
    ("rewards", lambda: g.transfer_diagnostic(torch.zeros(4, 4), Blocks.contiguous(4, 2))),
    ("rewards", lambda: g.credit_certificate(torch.tensor([0.0, math.nan]), 0.0, 1, 0.1, 1.0, 0.1)),
    ("reference_error", lambda: g.credit_certificate(torch.zeros(4), 0.0, 1, -0.1, 1.0, 0.1)),
    ("replaced", lambda: g.reference_range(torch.zeros(4), Blocks.contiguous(4, 1), RewardChannel(), 5)),
    ("scale_source", lambda: g.reference_range(torch.zeros(6), Blocks.contiguous(6, 2), RewardChannel(), 1)),
    ("groups", lambda: g.tolerance([[1.0, None], []])),
    ("channel.faults", lambda: g.tolerance(torch.zeros(3, 4), RewardChannel(faults="reject"))),
    ("groups", lambda: g.tolerance(torch.zeros(3, 4), replaced=4)),
    ("replaced", lambda: g.tolerance(torch.zeros(3, 4), replaced=-1)),
    ("group", lambda: g.tolerance_of_settings(1, RewardChannel())),
    ("share", lambda: g.tolerance(torch.zeros(3, 4)).within(0.0)),
]


@pytest.mark.parametrize(("argument", "call"), REFUSED, ids=[f"{i}-{name}" for i, (name, _) in enumerate(REFUSED)])
def test_an_argument_outside_the_premises_is_refused_by_name_with_what_is_allowed(argument, call):
    with pytest.raises(ValueError, match=r"must") as refusal:
        call()
    assert str(refusal.value).startswith(f"{argument} must ")
    assert ", not " in str(refusal.value)


def test_every_calculator_is_among_the_refusals():
    """Each public function has at least one argument it refuses above (dataclasses have none)."""
    tried = {name for _, call in REFUSED for name in call.__code__.co_names}
    functions = {n for n in g.__all__ if inspect.isfunction(getattr(g, n))}
    composed = {
        "credit_scale_stability",
        "flip_counts",
        "partition_budgets",
        "scale_orthogonality",
        "tolerance_of_groups",
    }  # refuse through others
    alike = {"grpo_bound", "center_only_limit", "orthogonality_remainder"}  # the same check as their neighbours
    assert functions - tried == composed | alike


def test_no_guarantee_takes_a_shape_since_all_are_about_the_convex_one():
    for name in g.__all__:
        assert not {"shape", "alpha"} & set(inspect.signature(getattr(g, name)).parameters), name
    with pytest.raises(TypeError):
        g.block_tail(1.0, 5, 1, 0.5, 1.0, shape=0.0)


def test_numbers_from_numpy_and_torch_are_taken_as_they_are():
    plain = g.reference_failure(1.5, (20, 20, 20), 1, 1, 0.6, 1.0)
    assert g.reference_failure(np.float64(1.5), np.array([20, 20, 20]), np.int64(1), np.int32(1), 0.6, 1.0) == plain
    assert g.reference_failure(torch.tensor(1.5), torch.tensor([20, 20, 20]), torch.tensor(1), 1, 0.6, 1) == plain
    assert g.reference_failure(1.5, (20, 20, 20), np.array([1, 1, 1]), 1, 0.6, 1.0) == plain


def test_extreme_but_allowed_numbers_give_numbers_not_overflow_errors():
    assert g.block_tail(1e200, 10**6, 1, 1e-200, 1.0) == 0.0
    assert g.credit_stability(1e300, 1e300, 1, 16, 1e200, 1e-200) == math.inf
    assert g.credit_fidelity(1e300, 1e-300) == math.inf
    assert g.contrast_retention(1.0, 1e300, 1e-300, 1e-300) == 0.0
    assert g.third_moment_bias(1.0, 1.0, 1e-200) == math.inf
    assert g.grpo_spike([0.0, 1.0, 2.0], 0, 1e300).scale == pytest.approx(1e300 * math.sqrt(2) / 3)
    assert g.policy_value(0.1, 0.1, advantage_bound=1.0, log_weight_bound=1e4) == math.inf


def test_the_guarantees_import_without_scipy():
    code = "import sys; sys.modules['scipy'] = None; import rovrl.guarantees as g; print(round(g.outer_factor(9), 4))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "1.0691", done.stderr
