"""The contract with ms-swift, and whole trainings by its own command: `pytest checks.py` in its environment.

The oracle is the installed source of ms-swift's loss with one statement replaced: a version that computes its weight elsewhere
has no such statement, and one that uses the log-probabilities in a new way disagrees.
"""

import copy
import inspect
import json
import re
import textwrap
import types
from pathlib import Path

import pytest
import torch

import one_batch
import rovrl
from rovrl.errors import RovrlError
from rovrl.integrations.environment import RATIO, REWARD, channels
from rovrl.weight import gspo_mean, soft_rovr

MEAN = "((log_ratio * completion_mask).sum(-1) / completion_mask.sum(-1).clamp(min=1.0)).unsqueeze(-1)"
OURS = "robust(log_ratio, completion_mask).unsqueeze(-1)"
TOLERANCE = 5e-6  # float32: log-probabilities of about 4 plus the shift are rounded to 2e-7, the weight moves by 0.02


def train(words, directory, **changes):
    """The trainer after `swift rlhf` ran."""
    from swift.pipelines.train.rlhf import SwiftRLHF

    pipeline = SwiftRLHF(words(directory, **changes))
    made = []
    pipeline_train = pipeline.train

    def keep(trainer):
        made.append(trainer)
        return pipeline_train(trainer)

    pipeline.train = keep
    pipeline.main()
    return made[0]


@pytest.fixture(scope="module")
def trained(words, tmp_path_factory):
    return train(words, tmp_path_factory.mktemp("trained"), scale_rewards="gdpo", beta=0.05)


def logged(trainer):
    return {name: value for entry in trainer.state.log_history for name, value in entry.items()}


def test_the_command_trains_with_both_channels_and_logs_the_same_names_as_every_engine(trained):
    assert type(trained).__module__ == "rovrl.integrations.ms_swift.trainer"
    found = logged(trained)
    assert found["rovr/credit_bound/Digits"] == found["rovr/credit_bound/Short"] == 1.0
    assert found["rovr/variance_share/Digits"] + found["rovr/variance_share/Short"] == pytest.approx(1.0)
    assert found["rovr/weight_shift"] > 0
    ours = {name for name in found if name.startswith("rovr/") and name.count("/") == 1}
    assert ours <= {rovrl.diagnostics.metric(name) for name in rovrl.diagnostics.METRICS}
    moved = [p for n, p in trained.model.named_parameters() if not p.isfinite().all()]
    assert moved == []


def test_the_advantages_are_those_of_the_core_function_by_function(trained):
    parts = trained.reward_run.last.parts
    assert len(parts) == 2
    names = list(trained._logs["rewards"])
    rewards = torch.tensor([list(trained._logs["rewards"][name]) for name in names], dtype=torch.float64).T[-32:]
    draw = torch.Generator().manual_seed(trained.reward_run.partition_seed())
    expected = rovrl.grouped_advantages(rewards, torch.arange(32) // 16, weights=[1.0, 0.5], generator=draw)
    torch.testing.assert_close(trained.reward_run.last.advantages, expected)
    used = torch.tensor(list(trained._logs["advantages"])[-32:], dtype=torch.float64)
    torch.testing.assert_close(used, expected, rtol=1e-5, atol=1e-6)


def test_the_one_batch_of_all_engines_gets_the_same_advantages_and_metrics(trained, monkeypatch):
    run = rovrl.RewardRun(rovrl.RewardChannel(**one_batch.SETTINGS))
    monkeypatch.setattr(trained, "reward_run", run)
    monkeypatch.setattr(trained, "reward_weights", torch.ones(1))
    monkeypatch.setattr(trained, "reward_func_names", ["alone"])
    monkeypatch.setattr(trained, "scale_rewards", "group")
    trained.model.train()
    found = trained._compute_advantages([], one_batch.rewards().unsqueeze(-1), [])
    one_batch.check(found, {name: values[-1] for name, values in trained._metrics["train"].items()})


def test_a_resumed_run_goes_on_as_if_it_had_never_stopped(trained, words, tmp_path):
    checkpoint = Path(trained.args.output_dir) / "checkpoint-2"
    state = json.loads((checkpoint / "rovr_state.json").read_text())
    assert (state["generation"], len(state["reward_run"]["memory"])) == (1, 2)
    resumed = train(words, tmp_path, scale_rewards="gdpo", beta=0.05, resume_from_checkpoint=checkpoint)
    assert resumed.reward_run.state_dict() == trained.reward_run.state_dict()
    whole, again = (dict(t.model.named_parameters()) for t in (trained, resumed))
    for name, value in whole.items():
        torch.testing.assert_close(again[name], value)


# --- the contract ---------------------------------------------------------------------------------------------------------


def oracle(trainer):
    from swift.rlhf_trainers import grpo_trainer

    source = textwrap.dedent(inspect.getsource(grpo_trainer.GRPOTrainer._compute_loss_and_metrics))
    mean = re.escape(MEAN).replace(r"\ ", r"\s+")  # it stands on two lines
    assert len(re.findall(mean, source)) == 1, (
        "ms-swift computes its sequence weight in another way: read its loss again"
    )
    names = {**vars(grpo_trainer), "robust": lambda ratios, mask: soft_rovr(ratios, mask.bool(), trainer.ratio_channel)}
    exec(re.sub(mean, OURS, source), names)
    return types.MethodType(names["_compute_loss_and_metrics"], trainer)


def micro_batch(trainer, generator):
    """What ms-swift trains on, with a spike in every response's log-ratios, so that mean and SoftRoVR are far apart."""
    made = trainer._buffered_inputs[0]
    batch = copy.copy(made["grpo_batch"])
    mask = batch.completion_mask
    with torch.no_grad():
        now, _ = super(type(trainer), trainer)._get_per_token_logps_and_entropies(
            trainer.model, made["model_inputs"], batch
        )
    place = (torch.rand(len(mask), 1, generator=generator) * mask.sum(-1, keepdim=True)).long()
    spike = torch.zeros_like(now).scatter(1, place, torch.randn(len(mask), 1, generator=generator).sign())
    batch.old_per_token_logps = now + 0.01 * torch.randn(now.shape, generator=generator) + spike
    if batch.ref_per_token_logps is not None:
        batch.ref_per_token_logps = now + 0.1 * torch.randn(now.shape, generator=generator)
    batch.advantages = torch.randn(len(mask), 1, generator=generator).expand_as(mask).clone()
    return made["model_inputs"], batch


def outcome(trainer, compute, inputs, batch):
    trainer.model.train()
    trainer.model.zero_grad()
    loss, metrics = compute(trainer.model, inputs, copy.copy(batch))
    loss.backward()
    gradient = torch.cat([p.grad.flatten() for p in trainer.model.parameters() if p.grad is not None])
    return loss.item(), gradient, metrics.get("clipping"), metrics.get("kl")


def distance(a, b):
    return ((a - b).norm() / b.norm()).item()


CASES = {
    "grpo": {},
    "bnpo": {"loss_type": "bnpo"},
    "dr_grpo": {"loss_type": "dr_grpo"},
    "sapo": {"loss_type": "sapo"},
    "off-policy mask": {"off_policy_sequence_mask_delta": 0.02, "_has_teacher": False},
}


@pytest.mark.parametrize("name", CASES)
def test_loss_and_gradient_are_those_of_ms_swift_with_its_mean_swapped(name, trained, monkeypatch):
    for attribute, value in CASES[name].items():
        monkeypatch.setattr(trained, attribute, value)
    monkeypatch.setattr(trained, "epsilon_low", 0.03)
    monkeypatch.setattr(trained, "epsilon_high", 0.04)
    inputs, batch = micro_batch(trained, torch.Generator().manual_seed(1))
    before = {key: value.clone() for key, value in vars(batch).items() if isinstance(value, torch.Tensor)}
    ours = outcome(trained, trained._compute_loss_and_metrics, inputs, batch)
    theirs = outcome(trained, oracle(trained), inputs, batch)
    plain = outcome(trained, super(type(trained), trained)._compute_loss_and_metrics, inputs, batch)
    assert ours[0] == pytest.approx(theirs[0], rel=TOLERANCE, abs=TOLERANCE)
    assert distance(ours[1], theirs[1]) < TOLERANCE
    assert distance(plain[1], theirs[1]) > 0.01  # the swap matters here: the comparison could have failed
    assert ours[2] == pytest.approx(theirs[2])
    assert ours[3] == pytest.approx(theirs[3], rel=1e-4, abs=1e-6)
    assert all(torch.equal(getattr(batch, key), value) for key, value in before.items())


def test_the_mean_as_weight_is_ms_swifts_own_gspo_in_loss_and_gradient(trained, monkeypatch):
    monkeypatch.setattr("rovrl.integrations.hf.soft_rovr", lambda ratios, mask, _: gspo_mean(ratios, mask))
    wide = rovrl.RatioChannel(num_blocks=1, score_width=1e6)
    inputs, batch = micro_batch(trained, torch.Generator().manual_seed(2))
    plain = outcome(trained, super(type(trained), trained)._compute_loss_and_metrics, inputs, batch)
    swapped = outcome(trained, trained._compute_loss_and_metrics, inputs, batch)
    monkeypatch.undo()
    monkeypatch.setattr(trained, "ratio_channel", wide)
    limit = outcome(trained, trained._compute_loss_and_metrics, inputs, batch)
    for found in (swapped, limit):
        assert found[0] == pytest.approx(plain[0], rel=TOLERANCE, abs=TOLERANCE)
        assert distance(found[1], plain[1]) < TOLERANCE


# --- settings -------------------------------------------------------------------------------------------------------------

REFUSED = {
    "token level": ({"importance_sampling_level": "token"}, "importance_sampling_level token has no sequence weight"),
    "cispo": ({"loss_type": "cispo", "epsilon_high": 5.0}, "loss_type cispo"),
    "batch scale": ({"scale_rewards": "batch"}, "scale_rewards batch would be ignored"),
    "rloo": ({"advantage_estimator": "rloo"}, "advantage_estimator rloo would be ignored"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_settings_that_would_do_something_else_are_refused_before_the_first_rollout(name, words, tmp_path):
    changes, sentence = REFUSED[name]
    with pytest.raises(RovrlError, match=sentence):
        train(words, tmp_path, **changes)


def test_a_wrong_number_of_weights_is_refused_before_the_first_rollout(words, tmp_path):
    with pytest.raises(ValueError, match=r"reward weights .* must match"):
        train(words, tmp_path, reward_weights=["1.0"])


def test_channels_come_from_the_environment_and_wrong_ones_are_sentences(monkeypatch):
    assert channels() == (rovrl.RewardChannel(), rovrl.RatioChannel())
    monkeypatch.setenv(REWARD, '{"credit_bound": 2.0}')
    monkeypatch.setenv(RATIO, "none")
    assert channels() == (rovrl.RewardChannel(credit_bound=2.0), None)
    for text, sentence in [("{", "JSON such as"), ('{"kappa": 1}', "has no field kappa"), ("3", "JSON such as")]:
        monkeypatch.setenv(REWARD, text)
        with pytest.raises(RovrlError, match=sentence):
            channels()
