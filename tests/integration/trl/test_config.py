"""RoVRConfig: GSPO's defaults, the channels, and a refusal for every setting that would silently do something else."""

import logging
import sys
import types

import pytest
import torch
from trl import GRPOConfig
from trl.scripts.utils import TrlParser

import tiny
from rovrl import RatioChannel, RewardChannel, RovrlError
from rovrl.integrations.trl import RoVRConfig, RoVRRLOOConfig, RoVRTrainer
from rovrl.integrations.trl.config import check_trl


def config(tmp_path, **changes):
    return RoVRConfig(str(tmp_path), **({"per_device_train_batch_size": 16, "num_generations": 16} | changes))


def test_the_defaults_are_gspos_and_the_papers(tmp_path):
    made = config(tmp_path)
    assert (made.epsilon, made.epsilon_high) == (3e-4, 4e-4)
    assert (made.importance_sampling_level, made.loss_type) == ("sequence", "grpo")
    assert made.reward_settings == RewardChannel()
    assert made.ratio_settings == RatioChannel()
    assert made.method_name == "rovr-gspo"


def test_on_a_machine_without_accelerator_the_defaults_run_in_float32(tmp_path):
    made = RoVRConfig(str(tmp_path))
    if torch.accelerator.is_available():
        assert made.bf16
    else:
        assert made.use_cpu
        assert not made.bf16
    assert config(tmp_path, use_cpu=True, bf16=True).bf16  # said is said


def test_what_the_user_gives_wins_over_the_gspo_clip(tmp_path):
    assert config(tmp_path, epsilon=0.1).epsilon == 0.1
    assert config(tmp_path, epsilon=0.1).epsilon_high is None  # TRL: the same as epsilon
    both = config(tmp_path, epsilon_high=0.3)
    assert (both.epsilon, both.epsilon_high) == (3e-4, 0.3)


def test_token_level_losses_keep_trls_clip_and_not_the_sequence_one(tmp_path):
    made = config(tmp_path, importance_sampling_level="token", ratio_channel=None, loss_type="dapo")
    assert (made.epsilon, made.epsilon_high) == (0.2, None)
    assert made.method_name == "rovr-adv"


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"reward_channel": None, "ratio_channel": None}, "gspo"),
        ({"reward_channel": None}, "softrovr"),
        ({"ratio_channel": None, "advantage": "center"}, "center"),
        ({"advantage": "median_mad", "weight": "gmpo"}, "median_mad+gmpo"),
        ({"reward_channel": "none", "ratio_channel": "null"}, "gspo"),
    ],
)
def test_each_channel_can_be_off_or_a_peer(changes, name, tmp_path):
    assert config(tmp_path, **changes).method_name == name


def test_channels_can_be_json_as_on_a_command_line(tmp_path):
    made = config(tmp_path, reward_channel='{"num_blocks": 5, "credit_bound": "adaptive"}')
    assert made.reward_settings == RewardChannel(num_blocks=5, credit_bound="adaptive")


def test_trls_own_parser_reads_every_field(tmp_path):
    words = [
        "--output_dir", str(tmp_path), "--reward_channel", '{"num_blocks": 4}', "--ratio_channel", "none",
        "--advantage", "loo", "--epsilon", "0.01", "--num_generations", "8", "--record_dir", "records",
    ]  # fmt: skip
    (made,) = TrlParser((RoVRConfig,)).parse_args_and_config(words)
    assert made.reward_settings == RewardChannel(num_blocks=4)
    assert made.ratio_settings is None
    assert (made.advantage, made.epsilon, made.record_dir) == ("loo", 0.01, "records")


REFUSED = {
    "token level with the ratio channel": ({"importance_sampling_level": "token"}, "ratio_channel=None"),
    "cispo": ({"loss_type": "cispo", "epsilon_high": 5.0}, "loss_type='cispo'.*ratio"),
    "vespo": ({"loss_type": "vespo"}, "loss_type='vespo'"),
    "cispo without its cap": (
        {"loss_type": "cispo", "ratio_channel": None, "importance_sampling_level": "token"},
        "epsilon_high must be given",
    ),
    "liger": ({"use_liger_kernel": True}, "use_liger_kernel"),
    "unknown reward field": ({"reward_channel": {"blocks": 3}}, "RewardChannel has no field blocks.*num_blocks"),
    "unknown ratio field": ({"ratio_channel": {"gamma": 1}}, "RatioChannel has no field gamma.*temperature"),
    "bad value": ({"reward_channel": {"num_blocks": 0}}, "num_blocks must be a whole number"),
    "not a dict": ({"reward_channel": 3}, "reward_channel must be a RewardChannel, a dict"),
    "no json": (
        {"reward_channel": "{num_blocks 3}"},
        "reward_channel must be none, paper, adaptive, guarded, or JSON such as",
    ),
    "no setting": ({"ratio_channel": "adaptve"}, "ratio_channel must be none, paper.*, or JSON such as"),
    "negative clip": ({"epsilon": -0.1}, "epsilon must be in"),
    "negative upper clip": ({"epsilon_high": -0.1}, "epsilon_high at least 0"),
    "scale_rewards": ({"scale_rewards": "none"}, "scale_rewards='none' would be ignored"),
    "scale_rewards batch": ({"scale_rewards": "batch"}, "scale_rewards='batch' would be ignored"),
    "aggregation": (
        {"multi_objective_aggregation": "best"},
        "multi_objective_aggregation must be 'sum_then_normalize'",
    ),
    "unknown advantage": ({"advantage": "best"}, "advantage must be one of .*credit"),
    "unknown weight": ({"weight": "best"}, "weight must be one of .*soft_rovr"),
    "advantage without channel": ({"reward_channel": None, "advantage": "loo"}, "advantage='loo' would be ignored"),
    "weight without channel": ({"ratio_channel": None, "weight": "gmpo"}, "weight='gmpo' would be ignored"),
    "one response": ({"num_generations": 1}, "at least 2 generations"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_settings_that_would_do_something_else_are_refused_with_a_sentence(name, tmp_path):
    changes, sentence = REFUSED[name]
    with pytest.raises(ValueError, match=sentence):
        config(tmp_path, **changes)


def test_trls_own_scalings_are_allowed_where_they_work(tmp_path):
    off = {"reward_channel": None, "scale_rewards": "none", "multi_objective_aggregation": "normalize_then_sum"}
    assert config(tmp_path, **off).scale_rewards == "none"
    token = {"ratio_channel": None, "importance_sampling_level": "token"}
    assert config(tmp_path, loss_type="cispo", epsilon_high=5.0, **token).epsilon_high == 5.0
    assert config(tmp_path, loss_type="vespo", **token).loss_type == "vespo"


def test_channels_can_be_the_channels_themselves_and_are_saved_as_their_fields(tmp_path):
    reward, ratio = RewardChannel(credit_bound="adaptive"), RatioChannel(num_blocks=4)
    made = config(tmp_path, reward_channel=reward, ratio_channel=ratio)
    assert (made.reward_settings, made.ratio_settings) == (reward, ratio)
    assert made.to_dict()["reward_channel"]["credit_bound"] == "adaptive"
    with pytest.raises(ValueError, match="reward_channel must be a RewardChannel, a dict of its fields, or None"):
        config(tmp_path, reward_channel=ratio)


def test_a_group_too_small_for_the_declared_budget_is_told(tmp_path, caplog):
    with caplog.at_level(logging.WARNING, logger="rovrl"):
        config(tmp_path, num_generations=16)
        assert not caplog.records
        config(tmp_path, num_generations=8)
    assert "num_generations=8 in 3 blocks does not carry the declared budget (q=1, s=1)" in caplog.text


def test_trl_outside_the_tested_range_is_refused_with_the_command_that_helps():
    for version in ("1.7.0", "1.17.0", "2.0.0"):
        with pytest.raises(RovrlError, match=r"pip install 'trl>=1.8,<1.17'"):
            check_trl(version)
    for version in ("1.8.0", "1.14.2", "1.16.0"):
        check_trl(version)


def test_unusable_inputs_of_the_trainer_get_a_sentence(tmp_path):
    plain = GRPOConfig(str(tmp_path), use_cpu=True, bf16=False)
    with pytest.raises(TypeError, match="needs a RoVRConfig"):
        RoVRTrainer(tiny.model(), tiny.digit_share, plain, tiny.addition(), processing_class=tiny.tokenizer())
    with pytest.raises(ValueError, match="column 'prompt', and has question, answer"):
        tiny.trainer(tmp_path, train_dataset=tiny.addition().rename_column("prompt", "question"))
    with pytest.raises(ValueError, match=r"beta=0\.1 needs a reference model"):
        tiny.trainer(tmp_path, beta=0.1)


def test_fully_on_policy_is_told_once_and_only_where_it_matters(tmp_path, caplog):
    with caplog.at_level(logging.WARNING, logger="rovrl"):
        tiny.trainer(tmp_path, steps_per_generation=1)
        assert [record.message[:34] for record in caplog.records] == ["This set-up is fully on-policy: ea"]
        caplog.clear()
        tiny.trainer(tmp_path, steps_per_generation=2)
        tiny.trainer(tmp_path, steps_per_generation=1, num_iterations=2)
        tiny.trainer(tmp_path, steps_per_generation=1, ratio_channel=None)
        assert not caplog.records


def test_a_token_clip_at_sequence_level_is_warned_of(tmp_path, caplog):
    RoVRConfig(str(tmp_path), epsilon=0.2)
    assert "never acts on a sequence weight" in caplog.text
    caplog.clear()
    RoVRConfig(str(tmp_path), epsilon=0.2, importance_sampling_level="token", ratio_channel=None)
    RoVRConfig(str(tmp_path))
    assert "never acts" not in caplog.text


@pytest.mark.parametrize(
    ("channels", "name", "cited"),
    [
        ({}, "RoVR-GSPO", "Dual-Channel Robust"),
        ({"reward_channel": None, "ratio_channel": None}, "GSPO", "Group Sequence Policy Optimization"),
        ({"reward_channel": None, "ratio_channel": None, "importance_sampling_level": "token"}, "GRPO", "DeepSeekMath"),
        ({"advantage": "winsor", "ratio_channel": None}, "winsor", "Dual-Channel Robust"),
    ],
)
def test_a_models_card_names_the_method_that_ran_its_settings_and_its_paper(tmp_path, channels, name, cited):
    tiny.trainer(tmp_path, **channels).create_model_card()
    card = (tmp_path / "README.md").read_text()
    assert f"trained with {name}" in card
    assert cited in card
    assert (cited == "DeepSeekMath") == ("DeepSeekMath" in card)
    assert '"num_generations": 16' in card


def test_unsloth_is_refused_beside_the_ratio_channel_and_let_be_beside_the_reward_channel(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "unsloth", types.ModuleType("unsloth"))  # detection is by its name alone
    with pytest.raises(ValueError, match=r"Unsloth is imported.*ratio_channel=None"):
        tiny.trainer(tmp_path)
    assert tiny.trainer(tmp_path, ratio_channel=None).ratio_channel is None


@pytest.mark.parametrize("name", ["paper", "adaptive", "guarded"])
def test_a_channel_may_be_the_name_of_a_preset(tmp_path, name):
    made = config(tmp_path, reward_channel=name, ratio_channel="paper")
    assert made.reward_settings == RewardChannel.preset(name)
    assert made.ratio_settings == RatioChannel()
    assert config(tmp_path, reward_channel={"preset": name}).reward_settings == RewardChannel.preset(name)
    assert RoVRRLOOConfig(str(tmp_path), reward_channel=name).reward_settings == RewardChannel.preset(name)
