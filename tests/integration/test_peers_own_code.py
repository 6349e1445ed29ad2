"""The peers against the code of the engines that have them: the same loss and the same gradient."""

import inspect
import textwrap

import pytest
import torch

import rovrl
from rovrl.baselines import OBJECTIVES
from rovrl.weight import gspo_mean


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(8)
    old = -torch.rand(6, 12, generator=generator, dtype=torch.float64)
    new = (old + 0.5 * torch.randn(6, 12, generator=generator, dtype=torch.float64)).requires_grad_()
    mask = torch.arange(12) < torch.tensor([12, 9, 1, 12, 5, 7]).unsqueeze(1)
    return old, new, torch.tensor([1.0, -0.5, 2.0, -1.5, 0.3, -0.1], dtype=torch.float64), mask


def verl_loss(name, batch):
    core = pytest.importorskip("verl.trainer.ppo.core_algos")
    from verl.workers.config import ActorConfig

    old, new, advantages, mask = batch
    config = ActorConfig(
        strategy="fsdp", rollout_n=1, ppo_micro_batch_size_per_gpu=1, clip_ratio_low=0.4, clip_ratio_high=0.4
    )
    per_token = advantages.unsqueeze(1).expand_as(old)
    loss, _ = core.get_policy_loss_fn(name)(old, new, per_token, mask.double(), config=config)
    return loss


@pytest.mark.parametrize(("theirs", "ours"), [("geo_mean", "gmpo"), ("sapo", "sapo")])
def test_gmpo_and_sapo_are_verls(theirs, ours, batch):
    old, new, advantages, mask = batch
    expected = verl_loss(theirs, batch)
    (wanted,) = torch.autograd.grad(expected, new)
    mine = -OBJECTIVES[ours](new - old, advantages, mask).mean()
    (got,) = torch.autograd.grad(mine, new)
    torch.testing.assert_close(mine, expected, atol=1e-7, rtol=1e-7)
    torch.testing.assert_close(got, wanted, atol=1e-7, rtol=1e-6)


def test_gmpo_is_the_loss_that_trls_gmpo_trainer_computes(batch):
    """Its lines between the log-ratio and the loss, run as they stand in the installed TRL."""
    gmpo = pytest.importorskip("trl.experimental.gmpo.gmpo_trainer")
    source = textwrap.dedent(inspect.getsource(gmpo.GMPOTrainer._compute_loss))
    lines = source.split("log_ratio = per_token_logps - old_per_token_logps\n")[1].split("# KL regularization")[0]
    old, new, advantages, mask = batch

    class Self:
        epsilon_low = epsilon_high = 0.4

    names = {"torch": torch, "self": Self, "log_ratio": new - old, "advantages": advantages, "mask": mask}
    exec(textwrap.dedent(lines), names | {"entropy_mask": None}, found := {})
    torch.testing.assert_close(-OBJECTIVES["gmpo"](new - old, advantages, mask), found["per_sequence_loss"])


def test_sapo_is_the_gate_of_trls_loss(batch):
    trl = pytest.importorskip("trl.trainer.grpo_trainer")
    source = inspect.getsource(trl.GRPOTrainer._compute_loss)
    assert "torch.sigmoid(temperatures * (coef_1 - 1)) * 4 / temperatures" in source
    old, new, advantages, mask = batch
    tau = torch.where(advantages > 0, 1.0, 1.05).double().unsqueeze(1)
    gate = torch.sigmoid(tau * ((new - old).exp() - 1)) * 4 / tau * advantages.unsqueeze(1)
    torch.testing.assert_close(OBJECTIVES["sapo"](new - old, advantages, mask), gspo_mean(gate, mask))


def verl_presets():
    """name -> verl's own preset of it."""
    config = pytest.importorskip("verl.trainer.config.algorithm").RolloutCorrectionConfig
    return {
        "tis": config.decoupled_token_is(),
        "tis_sequence": config.decoupled_seq_is(),
        "icepop": config.decoupled_token_icepop(),
        "geometric": config.decoupled_geo_rs(),
    }


@pytest.mark.parametrize("name", ["tis", "tis_sequence", "icepop", "geometric"])
def test_the_rollout_corrections_with_their_bounds_are_verls_presets(name):
    helper = pytest.importorskip("verl.trainer.ppo.rollout_corr_helper")
    preset, generator = verl_presets()[name], torch.Generator().manual_seed(3)
    mask = torch.arange(12) < torch.tensor([12, 9, 1, 12, 5, 7]).unsqueeze(1)
    scale = torch.tensor([0.5, 0.5, 2.0, 0.001, 0.0005, 0.5]).unsqueeze(1)
    log_ratios = scale * torch.randn(6, 12, generator=generator)
    if preset.rollout_is:
        kinds = (preset.rollout_is, preset.rollout_is_threshold)
        theirs, _ = helper.compute_rollout_correction_weights(log_ratios, mask.float(), *kinds)
    else:
        kinds = (preset.rollout_rs, preset.rollout_rs_threshold)
        theirs, _ = helper.compute_rollout_rejection_mask(log_ratios, mask.float(), *kinds)
    torch.testing.assert_close(rovrl.rollout_weights(log_ratios, mask, name) * mask, theirs)
    bounds = {2.0, 0.0} & set(theirs[mask].tolist())
    assert bounds  # they act
    assert set(theirs[mask].tolist()) > bounds  # and not everywhere


def test_mis_is_verls_sequence_weight_with_its_rejection_of_what_lies_above():
    helper = pytest.importorskip("verl.trainer.ppo.rollout_corr_helper")
    mask, generator = torch.ones(8, 6), torch.Generator().manual_seed(4)
    log_ratios = 0.5 * torch.randn(8, 6, generator=generator)
    weights, _ = helper.compute_rollout_correction_weights(log_ratios, mask, "sequence", 2.0)
    kept, _ = helper.compute_rollout_rejection_mask(-log_ratios, mask, "seq_sum_k1", "1e-9_2.0")  # its k1 is -log ρ
    torch.testing.assert_close(rovrl.rollout_weights(log_ratios, None, "mis").expand(8, 6), weights * kept)
    assert 0 < kept[:, 0].sum() < 8
