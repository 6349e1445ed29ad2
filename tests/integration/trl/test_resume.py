"""A run continued from a checkpoint ends where the uninterrupted one ends: parameters, metrics, records."""

import json
import logging
import shutil

import pytest
import torch

import tiny
from rovrl import RovrlError
from rovrl.integrations.hf import STATE_FILE
from rovrl.records import read_steps

pytestmark = pytest.mark.slow

CHANNEL = {"scale_source": "lagged", "credit_bound": "adaptive", "faults": "reject"}  # all of the state takes part


def noisy(rewards, generation):
    draw = torch.Generator().manual_seed(generation)
    hit = torch.rand(rewards.shape, generator=draw) < 0.1
    return rewards + 5.0 * hit, ["spike" if row.any() else "" for row in hit]


def make(directory, **changes):
    settings = {"max_steps": 8, "save_strategy": "steps", "save_steps": 2, "reward_channel": CHANNEL}
    where = {"record_dir": str(directory / "records"), "reward_transform": noisy}
    return tiny.trainer(directory, **settings | where | changes)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    directory = tmp_path_factory.mktemp("whole")
    trainer = make(directory)
    trainer.train()
    return directory, trainer


def parameters(trainer):
    return torch.cat([p.detach().flatten() for p in trainer.model.parameters()])


def curve(trainer):
    """The logged numbers of every step, without those that measure time."""
    timed = ("step_time", "runtime", "per_second")
    kept = [
        {k: v for k, v in entry.items() if not any(word in k for word in timed)} for entry in trainer.state.log_history
    ]
    return [entry for entry in kept if "loss" in entry]


def test_records_of_steps_that_are_drawn_again_are_dropped(whole, tmp_path):
    directory, _ = whole
    for name in ("checkpoint-2", "records"):
        shutil.copytree(directory / name, tmp_path / name)
    make(tmp_path, max_steps=4, learning_rate=2e-3).train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert [step for step, _ in read_steps(tmp_path)] == [1, 2]  # 3 and 4 were of the run with the other learning rate


@pytest.mark.parametrize("step", [2, 6])
def test_a_resumed_run_ends_bit_for_bit_where_the_whole_one_does(step, whole, tmp_path):
    directory, uninterrupted = whole
    shutil.copytree(directory / f"checkpoint-{step}", tmp_path / f"checkpoint-{step}")
    resumed = make(tmp_path)
    resumed.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{step}"))
    assert torch.equal(parameters(resumed), parameters(uninterrupted))
    assert curve(resumed) == curve(uninterrupted)
    final = [trainer.state.log_history[-1]["train_loss"] for trainer in (resumed, uninterrupted)]
    assert final[0] == pytest.approx(final[1], rel=1e-12)  # a mean over all steps, also those before the resume
    assert resumed.reward_run.state_dict() == uninterrupted.reward_run.state_dict()
    ours, theirs = dict(read_steps(tmp_path)), dict(read_steps(directory))
    assert sorted(ours) == [n for n in sorted(theirs) if n > step // 2]
    assert all(ours[n].equals(theirs[n]) for n in ours)


def test_negative_control_without_its_state_a_resumed_run_is_another_one(whole, tmp_path, caplog):
    directory, uninterrupted = whole
    shutil.copytree(directory / "checkpoint-6", tmp_path / "checkpoint-6")
    (tmp_path / "checkpoint-6" / STATE_FILE).unlink()
    resumed = make(tmp_path)
    with caplog.at_level(logging.WARNING, logger="rovrl"):
        resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-6"))
    assert f"has no {STATE_FILE}" in caplog.text
    assert not torch.equal(parameters(resumed), parameters(uninterrupted))


def test_the_state_is_plain_json_of_the_start_of_a_generation(whole):
    directory, _ = whole
    state = json.loads((directory / "checkpoint-6" / STATE_FILE).read_text())
    assert (state["generation"], state["backward_passes"], state["reward_run"]["step"]) == (3, 6, 3)


def test_a_checkpoint_inside_a_generation_draws_that_generation_again(tmp_path, caplog):
    first = make(tmp_path / "first", save_steps=3, max_steps=4)
    first.train()
    state = json.loads((tmp_path / "first" / "checkpoint-3" / STATE_FILE).read_text())
    assert (state["generation"], state["backward_passes"], state["reward_run"]["step"]) == (1, 3, 1)
    resumed = make(tmp_path / "second", save_steps=3, max_steps=8)
    with caplog.at_level(logging.WARNING, logger="rovrl"):
        resumed.train(resume_from_checkpoint=str(tmp_path / "first" / "checkpoint-3"))
    assert "save_steps be a multiple of 2" in caplog.text
    assert resumed._generation == 4
    assert sorted(step for step, _ in read_steps(tmp_path / "second")) == [2, 3, 4]


@pytest.mark.parametrize(
    "damage", ['{"generation": 1', {"generation": -5}, {"backward_passes": 1e400}, {"reward_run": {}}]
)
def test_a_damaged_state_gets_a_sentence(damage, whole, tmp_path):
    directory, _ = whole
    shutil.copytree(directory / "checkpoint-2", tmp_path / "checkpoint-2")
    file = tmp_path / "checkpoint-2" / STATE_FILE
    file.write_text(damage if isinstance(damage, str) else json.dumps(json.loads(file.read_text()) | damage))
    with pytest.raises(RovrlError, match=r"rovr_state\.json is damaged"):
        make(tmp_path).train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
