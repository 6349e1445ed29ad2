"""The state of a verl run: which step it is, and which scale a resumed run goes on with."""

import json
import warnings

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from rovrl.config import RewardChannel
from rovrl.integrations.verl import run as verl_run
from rovrl.integrations.verl.run import HISTORY, VerlRun, read_history

CHANNEL = RewardChannel(num_blocks=3, replaced_per_block=0, scale_source="lagged")
UIDS = ["a"] * 6 + ["b"] * 6


@pytest.fixture(scope="module", autouse=True)
def verl():
    """verl's rule for the last checkpoint, imported while warnings about engines that are not installed do not count."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")


def config(directory, **trainer):
    """A whole config as verl's driver holds it, as far as the state looks at it."""
    settings = {"default_local_dir": str(directory), "save_freq": 1, "resume_mode": "auto", **trainer}
    return OmegaConf.create(
        {
            "algorithm": {"adv_estimator": "rovr"},
            "trainer": {**settings, "v1": {"trainer_mode": "sync", "sync": {}}},
            "actor_rollout_ref": {"rollout": {"n": 6}, "actor": {"policy_loss": {"loss_mode": "rovr_gspo"}}},
        }
    )


def train(run, steps, seed=0):
    """Runs `steps` steps with a scale that grows from step to step; the number filled in at each."""
    used = []
    for _ in range(steps):
        number = run.step + 1
        rewards = torch.from_numpy(np.random.default_rng(seed + number).normal(size=12)) * number
        used.append(run.explain(CHANNEL, rewards, UIDS).channel.scale_source)
    return used


def checkpoint(directory, step):
    """What verl leaves behind when it saves."""
    (directory / f"global_step_{step}").mkdir()
    (directory / "latest_checkpointed_iteration.txt").write_text(str(step))


def test_a_run_resumed_from_checkpoint_n_uses_the_scale_of_step_n_and_not_a_later_one(tmp_path):
    whole = train(VerlRun.of(config(tmp_path / "whole").algorithm), 6)

    first = VerlRun.of(config(tmp_path / "cut").algorithm)
    train(first, 3)
    checkpoint(tmp_path / "cut", 3)
    train(first, 2)  # steps 4 and 5 ran, and are lost with the crash
    resumed = VerlRun.of(config(tmp_path / "cut").algorithm)
    assert resumed.step == 3
    assert train(resumed, 3) == whole[3:]
    steps = [line["step"] for line in read_history(tmp_path / "cut" / HISTORY)]
    assert steps == [1, 2, 3, 4, 5, 6]


def test_the_partition_of_a_step_is_the_same_after_a_resume_and_another_at_the_next_step(tmp_path):
    first = VerlRun.of(config(tmp_path).algorithm)
    train(first, 2)
    checkpoint(tmp_path, 2)
    train(first, 1)
    seed = first.reward_run.partition_seed()
    resumed = VerlRun.of(config(tmp_path).algorithm)
    train(resumed, 1)
    assert resumed.reward_run.partition_seed() == seed
    train(resumed, 1)
    assert resumed.reward_run.partition_seed() != seed


def test_resuming_by_path_finds_the_state_beside_the_named_checkpoint(tmp_path):
    first = VerlRun.of(config(tmp_path / "old").algorithm)
    train(first, 2)
    expected = first.reward_run.state_dict()
    (tmp_path / "old/global_step_2").mkdir()
    path = str(tmp_path / "old/global_step_2")
    resumed = VerlRun.of(config(tmp_path / "new", resume_mode="resume_path", resume_from_path=path).algorithm)
    assert resumed.reward_run.state_dict() == expected
    assert len(read_history(tmp_path / "new" / HISTORY)) == 2


def test_a_fresh_start_in_a_used_directory_forgets_what_was_there(tmp_path):
    train(VerlRun.of(config(tmp_path).algorithm), 2)
    checkpoint(tmp_path, 2)
    fresh = VerlRun.of(config(tmp_path, resume_mode="disable").algorithm)
    assert (fresh.step, fresh.reward_run.state_dict()["memory"]) == (0, [])
    assert read_history(tmp_path / HISTORY) == []


def test_a_checkpoint_without_state_starts_the_scale_anew_and_says_so(tmp_path, caplog):
    checkpoint(tmp_path, 4)
    run = VerlRun.of(config(tmp_path).algorithm)
    assert (run.step, run.reward_run.state_dict()["memory"]) == (4, [])
    assert "says nothing about step 4" in caplog.text


def test_a_line_cut_short_by_a_crash_is_left_out(tmp_path):
    run = VerlRun.of(config(tmp_path).algorithm)
    train(run, 2)
    with open(tmp_path / HISTORY, "a") as file:
        file.write('{"step": 3, "lag')
    checkpoint(tmp_path, 2)
    assert VerlRun.of(config(tmp_path).algorithm).reward_run.state_dict() == run.reward_run.state_dict()


def test_several_updates_per_step_count_as_one_step(tmp_path):
    asynchronous = config(tmp_path)
    asynchronous.trainer.v1 = {"trainer_mode": "separate_async", "separate_async": {"parameter_sync_step": 2}}
    run = VerlRun.of(asynchronous.algorithm)
    seen = []
    for _ in range(4):
        train(run, 1)
        seen.append(run.step)
    assert seen == [1, 1, 2, 2]
    checkpoint(tmp_path, 1)
    resumed = VerlRun.of(OmegaConf.create(OmegaConf.to_container(asynchronous)).algorithm)
    assert resumed.reward_run.state_dict() == read_history(tmp_path / HISTORY)[1]["state"]


def test_without_checkpoints_no_file_is_written_and_the_scale_still_lags(tmp_path):
    run = VerlRun.of(config(tmp_path / "x", save_freq=-1, resume_mode="disable").algorithm)
    used = train(run, 3)
    assert used[0] == used[1] != used[2]  # the first step's own scale, then that of the first, then of both
    assert not (tmp_path / "x").exists()


def test_a_section_that_stands_alone_is_a_run_without_a_place_for_its_state():
    alone = OmegaConf.create({"adv_estimator": "rovr"})
    run = VerlRun.of(alone)
    assert run is VerlRun.of(alone)
    assert run.history is None
    assert VerlRun.of(OmegaConf.create({"adv_estimator": "rovr"})) is not run


def test_a_directory_that_cannot_be_written_is_told_and_does_not_stop_the_run(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    run = VerlRun.of(config(tmp_path / "file" / "below", resume_mode="disable").algorithm)
    train(run, 1)
    assert "cannot keep the lagged scale" in caplog.text
    assert run.reward_run.last.lagged_scale is not None


def test_the_history_says_what_the_reward_channel_did(tmp_path):
    run = VerlRun.of(config(tmp_path).algorithm)
    train(run, 1)
    line = json.loads((tmp_path / HISTORY).read_text())
    assert line["blocks"] == {"6": [2, 2, 2]}
    assert line["scale_source"] == "lagged"
    assert line["corruption_could_adapt"] is False
    assert line["rovr/lagged_scale"] == line["state"]["memory"][0]["scales"]["value"]  # no earlier step: its own
    assert line["rovr/tied_rate"] == 0
    assert line["rovr/nu"] == pytest.approx(
        run.reward_run.last.lagged_scale
    )  # of the first step, the batch's own scale
    assert verl_run.beside(OmegaConf.create({"a": {"b": 1}, "c": {"d": 2}}).a, "c.d") == 2


def test_a_fresh_run_into_the_records_of_another_is_refused_before_anything_is_rolled_out(tmp_path):
    (tmp_path / "records" / "step_000001").mkdir(parents=True)
    (tmp_path / "run" / "global_step_4").mkdir(parents=True)

    def made(**trainer):
        policy_loss = {"record_dir": str(tmp_path / "records")}
        return OmegaConf.create(
            {
                "algorithm": {"adv_estimator": "rovr"},
                "actor_rollout_ref": {"actor": {"policy_loss": policy_loss}},
                "trainer": trainer,
            }
        )

    with pytest.raises(ValueError, match="holds the records of another run"):
        verl_run.check_run(made(resume_mode="disable"))
    verl_run.check_run(made(resume_mode="resume_path", resume_from_path=str(tmp_path / "run" / "global_step_4")))
