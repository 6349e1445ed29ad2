"""What verl's trainer tells beside rewards: sessions with several rows, reward functions, a place for metrics."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

import one_batch
import rovrl
from rovrl.integrations.verl import step
from rovrl.integrations.verl.step import Step, announced, current_step
from rovrl.robust.blocks import FIXED_SEED
from rovrl.tasks.remote.call import Answer


@pytest.fixture(scope="module")
def integration():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about engines and a GPU that are not there
        import rovrl.integrations.verl as made

    return made


def estimate(integration, rewards, keys, mask=None, **algorithm):
    """(advantages per row, metrics), from the estimator inside a step of the trainer."""
    mask = torch.ones(len(keys), 4) if mask is None else mask
    token_level = torch.zeros(len(keys), 4)
    token_level[:, -1] = torch.as_tensor(rewards)
    uids = np.array([key.rsplit("_", 2)[0] for key in keys], dtype=object)
    with announced(Step(keys, {})) as announced_step:
        found, _ = integration.rovr_advantages(token_level, mask, uids, OmegaConf.create(algorithm))
    assert torch.equal(found, found[:, :1] * mask)  # one number per response
    return found[:, 0], announced_step.metrics


def test_a_session_with_several_rows_counts_once_and_all_its_rows_get_its_advantage(integration):
    rewards = torch.tensor([0.1, 0.5, 0.2, 0.9, 0.4, 0.3])
    alone, _ = estimate(integration, rewards, [f"p_{i}_0" for i in range(6)])
    rows = [0, 0, 0, 1, 2, 3, 3, 4, 5]  # the first session has three rows, the fourth two
    keys = ["p_0_0", "p_0_2", "p_0_1", "p_1_0", "p_2_0", "p_3_0", "p_3_1", "p_4_0", "p_5_0"]
    several, metrics = estimate(integration, rewards[rows], keys)
    assert torch.equal(several, alone[rows])
    generator = torch.Generator().manual_seed(FIXED_SEED)
    expected = rovrl.grouped_advantages(rewards.double(), ["p"] * 6, generator=generator)
    torch.testing.assert_close(alone.double(), expected, rtol=1e-6, atol=1e-6)
    assert metrics["rovr/nonfinite_rate"] == 0.0


def test_the_last_row_with_tokens_stands_for_a_session_and_padding_for_none(integration):
    keys = ["p_0_0", "p_0_1", "p_1_0", "p_2_0", "p_3_0", "pad_0_0"]
    rewards = torch.tensor([0.1, 0.1, 0.5, 0.2, 0.9, 7.0])
    mask = torch.ones(6, 4)
    mask[[1, 5]] = 0  # a rejected last row, and padding
    found, _ = estimate(integration, rewards, keys, mask)
    alone, _ = estimate(integration, rewards[[0, 2, 3, 4]], ["p_0_0", "p_1_0", "p_2_0", "p_3_0"])
    assert torch.equal(found, torch.tensor([alone[0], 0.0, *alone[1:], 0.0]))


def test_the_metrics_of_the_reward_channel_go_where_verl_logs(integration):
    _, metrics = estimate(integration, torch.rand(16), [f"p_{i}_0" for i in range(16)])
    assert metrics["rovr/credit_bound"] == 1.0
    assert set(metrics) <= {rovrl.diagnostics.metric(name) for name in rovrl.diagnostics.METRICS}
    assert current_step() is None


def test_the_one_batch_of_all_engines_gets_the_same_advantages_and_metrics(integration):
    keys = [f"{prompt}_{i}_0" for i, prompt in enumerate(one_batch.ids())]
    found, metrics = estimate(integration, one_batch.rewards(), keys, rovr=one_batch.SETTINGS)
    one_batch.check(found, metrics)


def test_what_asking_a_server_took_is_counted_once_per_session_and_never_for_padding(integration, monkeypatch):
    asked = []

    def fields(keys, partition):
        asked.extend(keys)
        return [Answer(1.0, seconds=0.5, requests=0.25).fields("server", breaker_open=False) for _ in keys]

    monkeypatch.setattr(step, "_reward_fields", fields)
    batch = SimpleNamespace(
        keys=["p_0_0", "p_0_1", "p_1_0", "pad_0_0"], partition_id="train", tags=[{}, {}, {}, {"is_padding": True}]
    )
    found = step._calls(batch)
    assert asked == ["p_0_1", "p_1_0"]
    assert found["server/requests"] == 0.5
    assert found["server/seconds/p50"] == 0.5
    assert found["server/none"] == 0.0


def test_a_step_without_rewards_of_a_server_or_without_a_queue_has_nothing_to_say(integration, monkeypatch, caplog):
    batch = SimpleNamespace(keys=["p_0_0"], partition_id="train", tags=[{}])
    monkeypatch.setattr(step, "_reward_fields", lambda keys, partition: [{"acc": 1.0}])
    assert step._calls(batch) == {}
    assert not caplog.records
    monkeypatch.setattr(step, "_reward_fields", lambda keys, partition: 1 / 0)
    assert step._calls(batch) == {}
    assert "what the rewards took is not logged: ZeroDivisionError" in caplog.text


WRONG = {
    "too few weights": {"gdpo_reward_keys": ["a", "b"], "gdpo_reward_weights": [1.0]},
    "weights of nothing": {"gdpo_reward_weights": [1.0]},
    "a name twice": {"gdpo_reward_keys": ["a", "a"]},
    "no lists": {"gdpo_reward_keys": "a", "gdpo_reward_weights": 1},
    "no numbers": {"gdpo_reward_keys": ["a"], "gdpo_reward_weights": ["much"]},
    "no number": {"gdpo_reward_keys": ["a"], "gdpo_reward_weights": [float("nan")]},
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_number_of_functions_or_weights_is_refused_before_the_trainer_is_built(name, integration):
    from rovrl.integrations.verl.run import check_run

    config = OmegaConf.create({"algorithm": {"adv_estimator": "rovr", **WRONG[name]}})
    with pytest.raises(ValueError, match="gdpo_reward_weights must be one finite number per name"):
        check_run(config)
    config.algorithm.adv_estimator = "gdpo"  # verl's own: not ours to refuse
    check_run(config)


def test_a_penalty_in_the_score_is_refused_with_credit_per_function(integration):
    algorithm = OmegaConf.create({"gdpo_reward_keys": ["a"], "use_kl_in_reward": True})
    with pytest.raises(ValueError, match="use_kl_in_reward"):
        integration.reward_functions(algorithm)


def test_the_legacy_trainer_is_told_that_it_has_no_reward_fields(integration):
    algorithm = OmegaConf.create({"gdpo_reward_keys": ["a"]})
    with pytest.raises(ValueError, match="default trainer"):
        integration.rovr_advantages(torch.zeros(2, 3), torch.ones(2, 3), np.array(["p", "p"]), algorithm)


def test_verls_trainer_is_checked_before_it_is_built_and_announces_its_steps(integration):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

    config = OmegaConf.create({"algorithm": {"adv_estimator": "rovr", "rovr": {"blocks": 3}}})
    with pytest.raises(ValueError, match="RewardChannel has no field"):
        PPOTrainerSync(config)
    assert hasattr(PPOTrainerSync._compute_advantage, "__wrapped__")


def test_another_version_of_verl_is_told_before_anything_is_rolled_out(integration, monkeypatch, caplog):
    from rovrl.integrations.verl import run

    config = OmegaConf.create({"algorithm": {"adv_estimator": "rovr"}})
    run.check_run(config)
    assert not caplog.records
    monkeypatch.setattr(run, "version", lambda name: "0.10.2")
    run.check_run(config)
    assert (
        "verl 0.10.2 is installed, and rovrl is tested with 0.9 up to (not including) 0.10: pip install" in caplog.text
    )
