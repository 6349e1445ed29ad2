"""RoVR for RLOO: with RLOO's own formula the trainer is TRL's; with ours the advantages are those of a `RewardRun`."""

import json
import math

import pytest
import torch
from trl import RLOOConfig, RLOOTrainer

import one_batch
import tiny
from rovrl.integrations.trl import RoVRRLOOConfig, RoVRRLOOTrainer

SETTINGS = {
    "per_device_train_batch_size": 16,
    "num_generations": 16,
    "max_completion_length": 8,
    "steps_per_generation": 2,
    "max_steps": 2,
    "learning_rate": 1e-3,
    "logging_steps": 1,
    "report_to": "none",
    "save_strategy": "no",
    "gradient_checkpointing": False,
    "disable_tqdm": True,
}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tiny.saved(tmp_path_factory.mktemp("rloo"))


def missing_some(completions, **_):
    """The share of digits; the third response of each batch has no score."""
    return [None if i == 2 else score for i, score in enumerate(tiny.digit_share(completions))]


def build(path, directory, kind=RoVRRLOOTrainer, config=RoVRRLOOConfig, rewards=missing_some, **changes):
    own = {} if config is RoVRRLOOConfig else {"use_cpu": True, "bf16": False}
    args = config(str(directory), **(SETTINGS | own | changes))
    return kind(path, rewards, args, train_dataset=tiny.addition(), processing_class=tiny.tokenizer())


def generation(trainer):
    torch.manual_seed(0)
    trainer.model.train()
    return trainer._generate_and_score_completions([{"prompt": "1+1=", "answer": "2"}] * 32)


@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_with_rloos_own_formula_the_advantages_are_trls_penalty_included(beta, path, tmp_path):
    moved = {}
    for kind, config in ((RLOOTrainer, RLOOConfig), (RoVRRLOOTrainer, RoVRRLOOConfig)):
        ours = {"advantage": "rloo"} if config is RoVRRLOOConfig else {}
        trainer = build(path, tmp_path, kind, config, beta=beta, **ours)
        with torch.no_grad():  # away from the reference, so that there is a penalty
            for weight in trainer.model.parameters():
                weight.add_(0.05 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)))
        moved[kind] = generation(trainer)["advantages"]
    torch.testing.assert_close(moved[RoVRRLOOTrainer], moved[RLOOTrainer], atol=1e-5, rtol=1e-5)
    assert moved[RLOOTrainer][2] == 0
    assert moved[RLOOTrainer].abs().max() > 0.01


def test_the_one_batch_of_all_engines_gets_the_same_advantages_and_metrics(path, tmp_path):
    rewards = one_batch.rewards().tolist()

    def given(completions, **_):
        return [None if math.isnan(reward) else reward for reward in rewards]

    trainer = build(
        path, tmp_path, rewards=given, beta=0.0, seed=0, reward_channel=one_batch.SETTINGS, **one_batch_sizes()
    )
    trainer.model.train()
    output = trainer._generate_and_score_completions([{"prompt": f"{i}+1="} for i in one_batch.ids()])
    metrics = {name: values[-1] for name, values in trainer._metrics["train"].items() if name.startswith("rovr/")}
    one_batch.check(output["advantages"], metrics)
    assert list(trainer._logs["advantages"]) == pytest.approx(output["advantages"].tolist())


def one_batch_sizes():
    rows, groups = len(one_batch.ids()), len(set(one_batch.ids()))
    return {"per_device_train_batch_size": rows, "num_generations": rows // groups, "steps_per_generation": 1}


@pytest.mark.slow
def test_it_trains_logs_and_keeps_its_state(path, tmp_path):
    trainer = build(path, tmp_path, beta=0.05, save_strategy="steps", save_steps=2)
    before = [weight.detach().clone() for weight in trainer.model.parameters()]
    trainer.train()
    assert any((old != new).any() for old, new in zip(before, trainer.model.parameters(), strict=True))
    logged = {name for entry in trainer.state.log_history for name in entry}
    assert {"rovr/scale", "rovr/nonfinite_rate", "kl"} <= logged
    state = json.loads((tmp_path / "checkpoint-2" / "rovr_state.json").read_text())
    assert state["generation"] == 1
    trainer = build(path, tmp_path, beta=0.05, max_steps=4)
    trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert trainer._generation == 2


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"reward_clip_range": (-1, 1)}, "reward_clip_range=.* would be ignored"),
        ({"normalize_advantages": True}, "normalize_advantages=True would be ignored"),
        ({"advantage": "bloo"}, "advantage must be one of"),
        ({"reward_channel": None, "advantage": "loo"}, "would be ignored with reward_channel=None"),
        ({"reward_channel": {"blocks": 2}}, "RewardChannel has no field blocks"),
    ],
)
def test_settings_that_would_be_ignored_are_refused(changes, sentence, tmp_path):
    with pytest.raises(ValueError, match=sentence):
        RoVRRLOOConfig(str(tmp_path), **(SETTINGS | changes))


def test_a_config_of_trls_own_is_refused(path, tmp_path):
    with pytest.raises(TypeError, match="needs a RoVRRLOOConfig"):
        build(path, tmp_path, config=RLOOConfig)
