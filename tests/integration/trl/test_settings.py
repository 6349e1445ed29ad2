"""A few steps of real training in every supported setting: finite, moving, and logged."""

import math

import pytest
import torch
from datasets import IterableDataset
from peft import LoraConfig

import tiny
from rovrl.records import read_steps

pytestmark = pytest.mark.slow

OFF = {"reward_channel": None, "ratio_channel": None}
TOKEN = {"ratio_channel": None, "importance_sampling_level": "token"}

SETTINGS = {
    "both channels": {},
    "plain gspo": OFF,
    "reward channel alone": {"ratio_channel": None},
    "ratio channel alone": {"reward_channel": None},
    "on-policy": {"steps_per_generation": 1},
    "gradient accumulation": {
        "gradient_accumulation_steps": 2,
        "steps_per_generation": 4,
        "per_device_train_batch_size": 8,
    },
    "several passes": {"num_iterations": 2, "steps_per_generation": 1},
    "kl": {"beta": 0.05},
    "two-sided clip": {"delta": 1.05},
    "masked truncation": {"mask_truncated_completions": True},
    "top entropy tokens": {"top_entropy_quantile": 0.5, "entropy_coef": 0.01},
    "off-policy mask": {"off_policy_mask_threshold": 0.1},
    "several rewards": {"rewards": [tiny.digit_share, tiny.length_reward], "reward_weights": [1.0, 0.5]},
    "lora": {"peft_config": LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")},
    "lora with kl": {"peft_config": LoraConfig(r=4, target_modules=["q_proj"], task_type="CAUSAL_LM"), "beta": 0.05},
    "gradient checkpointing": {"gradient_checkpointing": True},
    "bfloat16 autocast": {"bf16": True},
    "token-level grpo": {**TOKEN, "loss_type": "grpo"},
    "token-level dapo": {**TOKEN, "loss_type": "dapo"},
    "token-level dr_grpo": {**TOKEN, "loss_type": "dr_grpo"},
    "token-level cispo": {**TOKEN, "loss_type": "cispo", "epsilon_high": 5.0},
    "sequence dapo": {"loss_type": "dapo"},
    "sequence sapo": {"loss_type": "sapo"},
    "unrolled gradient": {"ratio_channel": {"gradient": "unrolled"}},
    "robust units": {"ratio_channel": {"units": "robust"}},
    "gmpo weight": {"weight": "gmpo"},
    "small groups, lagged scale": {"num_generations": 8, "reward_channel": {"replaced_per_block": 0}},
    "adaptive credit": {"reward_channel": {"credit_bound": "adaptive", "credit_floor": "adaptive"}},
    "contiguous blocks": {"reward_channel": {"partition": "contiguous"}},
    **{f"advantage {name}": {"advantage": name} for name in ("grpo", "center", "loo", "median_mad", "winsor", "rloo")},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_training_moves_finite_parameters_and_logs(name, tmp_path):
    changes = dict(SETTINGS[name])
    if "beta" in changes and "peft_config" not in changes:
        changes["start"] = tiny.saved(tmp_path)
    trainer = tiny.trainer(tmp_path, epsilon=0.03, **({"epsilon_high": 0.04} | changes), max_steps=3)
    before = {n: p.detach().clone() for n, p in trainer.model.named_parameters() if p.requires_grad}
    trainer.train()
    after = dict(trainer.model.named_parameters())
    assert all(after[n].isfinite().all() for n in before)
    assert any(not torch.equal(after[n], before[n]) for n in before)
    logged = {key: value for entry in trainer.state.log_history for key, value in entry.items()}
    assert math.isfinite(logged["loss"])
    on = [key for key in logged if key.startswith("rovr/")]
    assert bool(on) == (changes.get("reward_channel", {}) is not None or changes.get("ratio_channel", {}) is not None)
    assert all(math.isfinite(logged[key]) for key in on)
    assert ("rovr/weight_shift" in logged) == (changes.get("ratio_channel", {}) is not None and name != "on-policy")


def test_conversations_and_streamed_datasets_train(tmp_path):
    def stream():
        for a in range(8):
            yield {"prompt": [{"role": "user", "content": f"{a}+{a}="}]}

    def reward(completions, **_):
        return tiny.digit_share([message[0]["content"] for message in completions])

    records = tmp_path / "records"
    data = IterableDataset.from_generator(stream)
    trainer = tiny.trainer(tmp_path, rewards=reward, train_dataset=data, record_dir=str(records))
    trainer.train()
    assert trainer.reward_run.step == 1
    [(_, table)] = list(read_steps(records))
    assert set(table["prompt"].to_pylist()) <= {f"{a}+{a}=" for a in range(8)}


def test_tokens_of_tools_have_no_part_in_weight_or_record(tmp_path, monkeypatch):
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    tokens = tiny.tokenizer()

    def rollout(prompts, trainer):
        draw = torch.Generator().manual_seed(trainer.state.global_step)
        completions = torch.randint(3, 60, (len(prompts), 12), generator=draw).tolist()
        return {
            "prompt_ids": [tokens(prompt)["input_ids"] for prompt in prompts],
            "completion_ids": completions,
            "logprobs": [[-4.0] * 12 for _ in prompts],
            "env_mask": [[1] * 5 + [0] * 4 + [1] * 3 for _ in prompts],
        }

    trainer = tiny.trainer(tmp_path, rollout_func=rollout, record_dir=str(tmp_path / "records"), beta=0.0)
    trainer.train()
    [(_, table)] = list(read_steps(tmp_path))
    assert set(table["length"].to_pylist()) == {8}
    assert {len(row) for row in table["log_ratios"].to_pylist()} == {8}
    assert "tool_mask" in trainer._buffered_inputs[0]
