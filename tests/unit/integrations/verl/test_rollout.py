"""`algorithm.rovr_rollout`: verl's advantages carry the weights of a rollout correction; what could not act is refused."""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

import rovrl
from rovrl.integrations.verl.run import check_run
from rovrl.integrations.verl.step import Step, announced


@pytest.fixture(scope="module")
def integration():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about engines and a GPU that are not there
        import rovrl.integrations.verl as made

    return made


@dataclass(frozen=True)
class Sampled(Step):
    """A step whose log-ratios are given here; in a run they come from verl's TransferQueue."""

    given: torch.Tensor = None

    def log_ratios(self, width):
        return self.given


@pytest.mark.parametrize("name", ["icepop", "mis", "soft_rovr"])
def test_weighted_advantages_give_the_loss_that_verls_rollout_weights_would(name, integration, generator):
    from verl.workers.config import FSDPActorConfig

    mask = (torch.arange(10) < torch.randint(4, 11, (16, 1), generator=generator)).long()
    rewards = torch.zeros(16, 10)
    rewards[:, 0] = torch.randn(16, generator=generator)
    uids = np.array(["a", "b"] * 8, dtype=object)
    log_ratios = 0.5 * torch.randn(16, 10, generator=generator)
    keys = [f"{uid}_{i}_0" for i, uid in enumerate(uids)]
    with announced(Sampled(keys, {}, given=log_ratios)) as step:
        weighted, returns = integration.rovr_advantages(rewards, mask, uids, OmegaConf.create({"rovr_rollout": name}))
    plain, _ = integration.rovr_advantages(rewards, mask, uids, OmegaConf.create({}))
    weights = rovrl.rollout_weights(log_ratios, mask.bool(), name).expand(16, 10)
    assert torch.equal(returns, plain)
    torch.testing.assert_close(weighted, plain * weights)
    assert step.metrics["rovr/rollout_gap"] == pytest.approx(log_ratios[mask.bool()].abs().mean().item())

    config = FSDPActorConfig(strategy="fsdp", rollout_n=1, ppo_micro_batch_size_per_gpu=1, clip_ratio=0.1)
    old = -torch.rand(16, 10, generator=generator)
    new = (old + 0.1 * torch.randn(16, 10, generator=generator)).requires_grad_()
    ours, _ = integration.rovr_gspo_loss(old, new, weighted, mask, config=config)
    theirs, _ = integration.rovr_gspo_loss(old, new, plain, mask, config=config, rollout_is_weights=weights)
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(*(torch.autograd.grad(loss, new)[0] for loss in (ours, theirs)))


def run_config(rollout, rovr_rollout="tis", log_probs=True):
    return OmegaConf.create(
        {
            "algorithm": {"adv_estimator": "rovr", "rollout_correction": rollout, "rovr_rollout": rovr_rollout},
            "actor_rollout_ref": {"rollout": {"calculate_log_probs": log_probs}},
        }
    )


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (run_config({"rollout_is": "token"}), "would both weigh the loss: leave one of the two out"),
        (run_config({"rollout_is": None, "bypass_mode": True}), "has nothing to correct: leave one of the two out"),
        (run_config({}, log_probs=False), "set actor_rollout_ref.rollout.calculate_log_probs=True"),
        (run_config({}, "tsi"), "must be one of tis, tis_sequence"),
        (run_config({}, {"statistic": "median"}), "RolloutCorrection.statistic must be one of"),
    ],
)
def test_a_correction_that_could_not_act_is_refused_before_anything_is_rolled_out(config, sentence, integration):
    with pytest.raises(ValueError, match=sentence):
        check_run(config)


def test_a_correction_that_can_act_passes_and_other_estimators_are_not_ours_to_check(integration):
    check_run(run_config({"rollout_is": None, "rollout_rs": "seq_mean_k3"}, {"statistic": "soft_rovr", "high": 1.5}))
    config = run_config({"rollout_is": "token"})
    config.algorithm.adv_estimator = "grpo"
    check_run(config)


def test_the_legacy_trainer_is_told_that_it_has_no_log_probabilities(integration):
    with pytest.raises(ValueError, match="rovr_rollout needs verl's default trainer"):
        integration.rovr_advantages(
            torch.zeros(2, 3), torch.ones(2, 3), np.array(["p", "p"]), OmegaConf.create({"rovr_rollout": "tis"})
        )
