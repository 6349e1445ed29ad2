"""The contract with TRL: its own loss with the sequence mean swapped for ours gives the loss and gradient we train on.

The oracle is the installed TRL's source of `_compute_loss`, with one statement replaced. A TRL that computes its weight
elsewhere has no such statement, and one that uses the log-probabilities in a new way disagrees: both fail here.
"""

import inspect
import textwrap
import types

import pytest
import torch
import trl.trainer.grpo_trainer as trl_module

import tiny
from rovrl.integrations.hf import WEIGHTS
from rovrl.integrations.trl.trainer import RoVRTrainer
from rovrl.weight import gspo_mean
from trl_loss import TOLERANCE, batch, distance, make, outcome

MEAN = "log_importance_weights = (log_ratio * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)"
OURS = "log_importance_weights = robust_log_weight(self, log_ratio, mask, inputs['advantages'])"
CASES = {
    "grpo": {},
    "bnpo": {"loss_type": "bnpo"},
    "dr_grpo": {"loss_type": "dr_grpo"},
    "dapo": {"loss_type": "dapo"},
    "luspo": {"loss_type": "luspo"},
    "sapo": {"loss_type": "sapo"},
    "kl": {"beta": 0.5},
    "kl_uncorrected": {"beta": 0.5, "use_bias_correction_kl": False},
    "two_sided_clip": {"delta": 1.05},
    "off_policy_mask": {"off_policy_mask_threshold": 0.02},
    "entropy": {"entropy_coef": 0.01, "top_entropy_quantile": 0.5},
    "everything": {
        "loss_type": "dapo",
        "beta": 0.5,
        "delta": 1.05,
        "off_policy_mask_threshold": 0.02,
        "entropy_coef": 0.01,
    },
    "unrolled": {"ratio_channel": {"gradient": "unrolled"}},
    "robust_units": {"ratio_channel": {"units": "robust"}, "beta": 0.5},
    "gmpo": {"weight": "gmpo", "beta": 0.5},
    "trimmed": {"weight": "trimmed"},
    "median": {"weight": "median"},
}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tiny.saved(tmp_path_factory.mktemp("contract"))


def oracle():
    source = textwrap.dedent(inspect.getsource(trl_module.GRPOTrainer._compute_loss))
    assert source.count(MEAN) == 1, "TRL computes its sequence weight in another way: read _compute_loss again"

    def robust_log_weight(trainer, log_ratio, mask, advantages):
        return WEIGHTS[trainer.args.weight](log_ratio, mask.bool(), trainer.ratio_channel, advantages)

    names = {**vars(trl_module), "robust_log_weight": robust_log_weight}
    exec(source.replace(MEAN, OURS), names)
    return names["_compute_loss"]


def compare(trainer, inputs):
    """(relative gradient error against the oracle, that of plain GSPO), after checking loss and metrics."""
    loss, gradient, metrics = outcome(trainer, trainer._compute_loss, inputs)
    expected_loss, expected, expected_metrics = outcome(trainer, types.MethodType(oracle(), trainer), inputs)
    plain = outcome(trainer, lambda model, x: trl_module.GRPOTrainer._compute_loss(trainer, model, x), inputs)[1]
    assert loss == pytest.approx(expected_loss, rel=TOLERANCE, abs=TOLERANCE)
    assert metrics == pytest.approx(expected_metrics, rel=1e-4, abs=1e-5, nan_ok=True)
    return distance(gradient, expected), distance(plain, expected)


@pytest.mark.parametrize("name", CASES)
def test_loss_and_gradient_are_those_of_trl_with_its_mean_swapped(name, path, tmp_path, generator):
    trainer = make(path, tmp_path, **CASES[name])
    error, plain = compare(trainer, batch(trainer, generator))
    assert error < TOLERANCE
    assert plain > 0.01  # the swap matters here: the comparison could have failed


@pytest.mark.parametrize("shape", [{"tools": True}, {"truncated": True}, {"tools": True, "truncated": True}])
def test_tool_masks_and_fully_masked_responses_keep_the_contract(shape, path, tmp_path, generator):
    trainer = make(path, tmp_path, beta=0.5)
    error, plain = compare(trainer, batch(trainer, generator, **shape))
    assert error < TOLERANCE
    assert plain > 0.01


@pytest.mark.parametrize("changes", [{}, {"beta": 0.5}, {"off_policy_mask_threshold": 0.02}])
def test_on_policy_the_contract_holds_and_the_weight_is_one(changes, path, tmp_path, generator):
    trainer = make(path, tmp_path, **changes)
    inputs = batch(trainer, generator, on_policy=True)
    error, _ = compare(trainer, inputs)
    assert error < TOLERANCE
    assert trainer._metrics["train"]["clip_ratio/region_mean"][-1] == 0.0


def test_importance_ratios_of_another_sampler_multiply_as_in_trl(path, tmp_path, generator):
    trainer = make(path, tmp_path, beta=0.5)
    inputs = batch(trainer, generator)
    trainer.use_vllm = trainer.vllm_importance_sampling_correction = True  # as TRL sets them; the ratios are given here
    inputs["importance_sampling_ratio"] = torch.rand(16, 1, generator=generator) + 0.5
    error, plain = compare(trainer, inputs)
    assert error < TOLERANCE
    assert plain > 0.01


def test_the_inputs_are_left_as_they_were_so_that_they_can_be_used_again(path, tmp_path, generator):
    trainer = make(path, tmp_path, beta=0.5, off_policy_mask_threshold=0.02)
    inputs = batch(trainer, generator)
    before = {name: value.clone() for name, value in inputs.items()}
    first = trainer._compute_loss(trainer.model, inputs)
    assert inputs.keys() == before.keys()
    assert all(torch.equal(inputs[name], before[name]) for name in before)
    assert trainer._compute_loss(trainer.model, inputs).item() == first.item()


class ForgetsToFollow(RoVRTrainer):
    """Shifts the policy's log-probabilities and nothing else: the mistake that the two controls below must see."""

    def _recentred(self, log_probs, batch):
        return super()._recentred(log_probs, dict(batch))


@pytest.mark.parametrize("changes", [{"beta": 0.5}, {"off_policy_mask_threshold": 0.02}])
def test_negative_control_without_following_the_shift_the_contract_breaks(changes, path, tmp_path, generator):
    trainer = make(path, tmp_path, kind=ForgetsToFollow, **changes)
    inputs = batch(trainer, generator)
    gradient = outcome(trainer, trainer._compute_loss, inputs)[1]
    expected = outcome(trainer, types.MethodType(oracle(), trainer), inputs)[1]
    assert distance(gradient, expected) > 100 * TOLERANCE


def test_negative_control_a_detached_shift_is_the_value_but_not_the_gradient(path, tmp_path, generator):
    class Detached(RoVRTrainer):
        def _recentred(self, log_probs, batch):
            shifted = super()._recentred(log_probs, batch)
            return log_probs + (shifted - log_probs).detach()

    trainer = make(path, tmp_path, kind=Detached)
    inputs = batch(trainer, generator)
    loss, gradient, _ = outcome(trainer, trainer._compute_loss, inputs)
    expected_loss, expected, _ = outcome(trainer, types.MethodType(oracle(), trainer), inputs)
    assert loss == pytest.approx(expected_loss, rel=TOLERANCE)
    assert distance(gradient, expected) > 100 * TOLERANCE


def test_a_weight_too_large_for_exp_stays_finite(path, tmp_path, generator):
    trainer = make(path, tmp_path)
    inputs = batch(trainer, generator)
    inputs["old_per_token_logps"] = inputs["old_per_token_logps"] - 200.0
    inputs["advantages"] = -inputs["advantages"].abs()
    loss, gradient, _ = outcome(trainer, trainer._compute_loss, inputs)
    assert loss > 1e6  # unclipped for a negative advantage
    assert gradient.norm() < 1e-6 * loss  # none beyond the clamp of the exponent, up to float32 rounding


def test_switched_off_the_ratio_channel_leaves_trl_alone(path, tmp_path, generator):
    trainer = make(path, tmp_path, ratio_channel=None, beta=0.5)
    inputs = batch(trainer, generator)
    ours = outcome(trainer, trainer._compute_loss, inputs)
    theirs = outcome(trainer, lambda model, x: trl_module.GRPOTrainer._compute_loss(trainer, model, x), inputs)
    assert ours[0] == theirs[0]
    assert torch.equal(ours[1], theirs[1])


def test_the_mean_as_ratio_channel_is_gspo(path, tmp_path, generator):
    trainer = make(path, tmp_path, weight="gspo", beta=0.5)
    inputs = batch(trainer, generator)
    ours = outcome(trainer, trainer._compute_loss, inputs)
    theirs = outcome(trainer, lambda model, x: trl_module.GRPOTrainer._compute_loss(trainer, model, x), inputs)
    assert distance(ours[1], theirs[1]) < TOLERANCE
    mask = inputs["completion_mask"].bool()
    assert WEIGHTS["gspo"](inputs["old_per_token_logps"], mask, None).equal(
        gspo_mean(inputs["old_per_token_logps"], mask)
    )
