"""RoVR on TRL's asynchronous trainer: trainings with rollouts made in this process, and what gets credit."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import async_rollouts
import one_batch
import rovrl
import tiny
from async_rollouts import SETTINGS, build, module
from rovrl.integrations.trl.async_grpo import RoVRAsyncConfig, RoVRAsyncTrainer, check_async_trl

TESTS = Path(__file__).parents[2]
ROUNDING = 1e-4  # float32 gradients summed in another order, over three steps of Adam; a step moves parameters by 1e-2


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tiny.saved(tmp_path_factory.mktemp("async"))


@pytest.fixture(autouse=True)
def cpu(monkeypatch):
    async_rollouts.without_gpu(monkeypatch)


def test_switched_off_both_channels_leave_trl_alone(path, tmp_path):
    weights, logs = [], []
    for kind, config, off in (
        (module.AsyncGRPOTrainer, module.AsyncGRPOConfig, {}),
        (RoVRAsyncTrainer, RoVRAsyncConfig, {"reward_channel": None, "ratio_channel": None}),
    ):
        trainer = build(path, tmp_path, kind, config, **off)
        trainer.train()
        weights.append(torch.cat([w.detach().flatten() for w in trainer.model.parameters()]))
        logs.append([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
    assert torch.equal(*weights)
    assert logs[0] == logs[1]


def test_it_trains_one_step_behind_with_both_channels_and_keeps_its_state(path, tmp_path):
    trainer = build(path, tmp_path, save_strategy="steps", save_steps=2)
    before = torch.cat([w.detach().flatten().clone() for w in trainer.model.parameters()])
    trainer.train()
    worker = trainer.rollout_worker
    after = torch.cat([w.detach().flatten() for w in trainer.model.parameters()])
    assert (after - before).abs().max() > 1e-3
    assert torch.equal(after, torch.cat([w.detach().flatten() for w in worker.model.parameters()]))
    logged = {name: value for entry in trainer.state.log_history for name, value in entry.items()}
    assert abs(logged["ratio"] - 1) > 1e-3  # trained on when the policy had moved
    assert logged["rovr/weight_shift"] > 1e-5
    assert logged["rovr/nonfinite_rate"] == pytest.approx(1 / 16)
    run = rovrl.RewardRun(rovrl.RewardChannel(), seed=trainer.args.seed)
    assert_credited_by(run, worker.made[:48])
    state = json.loads((tmp_path / "checkpoint-2" / "rovr_state.json").read_text())["reward_run"]
    again = build(path, tmp_path, max_steps=3)
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert again.state.global_step == 3
    run.load_state_dict(state)
    assert_credited_by(run, again.rollout_worker.made[:16])


def assert_credited_by(run, samples):
    """Each two groups of 8 have the advantages of the run's next step."""
    for start in range(0, len(samples), 16):
        step = samples[start : start + 16]
        found = run.advantages([sample.metrics["reward"] for sample in step], [sample.group_id for sample in step])
        assert [sample.advantage for sample in step] == pytest.approx(found.tolist(), rel=1e-12)


@pytest.mark.slow
def test_two_processes_make_the_update_of_one(path, tmp_path):
    found = {}
    for ranks in (1, 2):
        out = tmp_path / str(ranks)
        launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"] if ranks > 1 else []
        done = subprocess.run(
            [sys.executable, *launch, TESTS / "async_ranks.py", path, out],
            env=os.environ | {"OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-8000:]
        assert (out / "checkpoint-2" / "rovr_state.json").exists()
        found[ranks] = torch.load(out / "found.pt", weights_only=True)
    one, two = found[1], found[2]
    assert (
        one["advantages"][:32] == two["advantages"][:32]
    )  # the third step's responses are of policies that rounded apart
    assert (one["weights"] - two["weights"]).abs().max() < ROUNDING
    for mine, other in zip(two["log"][:2], one["log"][:2], strict=True):
        shared = [name for name in other if name.startswith("rovr/")]
        assert len(shared) > 10
        assert {name: mine[name] for name in shared} == pytest.approx(
            {name: other[name] for name in shared}, rel=1e-3, abs=1e-5
        )


def test_the_one_batch_of_all_engines_gets_the_same_advantages_and_metrics(path, tmp_path):
    rewards = one_batch.rewards().tolist()
    trainer = build(
        path, tmp_path, rewards=lambda _, group, place: rewards[16 * group + place], num_generations=16,
        per_device_train_batch_size=32, seed=0, reward_channel=one_batch.SETTINGS,
    )  # fmt: skip
    trainer.rollout_worker.batch()
    taken = [trainer.rollout_queue.get(timeout=1) for _ in range(32)]
    assert [id(sample) for sample in taken] == [id(sample) for sample in trainer.rollout_worker.made]
    metrics = {name: values[-1] for name, values in trainer._metrics["train"].items()}
    one_batch.check(torch.tensor([sample.advantage for sample in taken]), metrics)


def test_each_reward_function_gets_credit_of_its_own_where_asked(path, tmp_path):
    trainer = build(path, tmp_path, multi_objective_aggregation="normalize_then_sum")
    samples = trainer.rollout_worker.samples("1+1=")
    told = torch.randn(len(samples), 2, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    told[2, 1] = math.nan
    for sample, row in zip(samples, told.tolist(), strict=True):
        sample.metrics = {"reward": 0.0, "rewards/right": row[0], "rewards/short": row[1]}
    trainer._credit([[[sample] for sample in samples]])
    run = rovrl.RewardRun(rovrl.RewardChannel(), seed=trainer.args.seed)
    expected = run.advantages(told, [0] * len(samples), weights=[1.0, 1.0])
    assert [sample.advantage for sample in samples] == pytest.approx(expected.tolist(), rel=1e-12)
    assert {"rovr/variance_share/right", "rovr/variance_share/short"} <= trainer._metrics["train"].keys()


def test_a_worker_that_tells_no_reward_is_told_where_to_put_it(path, tmp_path):
    trainer = build(path, tmp_path)
    samples = trainer.rollout_worker.samples("1+1=")
    for sample in samples:
        sample.metrics = {}
    with pytest.raises(rovrl.RovrlError, match=r"told no 'reward'.*sample.metrics\['reward'\]"):
        trainer._credit([[[sample] for sample in samples]])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"advantage": "bloo"}, "advantage must be one of"),
        ({"reward_channel": None, "advantage": "loo"}, "would be ignored with reward_channel=None"),
        ({"reward_channel": {"blocks": 2}}, "RewardChannel has no field blocks"),
        ({"ratio_channel": {"blocks": 2}}, "RatioChannel has no field blocks"),
        ({"multi_objective_aggregation": "both"}, "multi_objective_aggregation must be"),
        ({"epsilon": 2.0}, r"epsilon must be in \[0, 1\)"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, sentence, tmp_path):
    with pytest.raises(ValueError, match=sentence):
        RoVRAsyncConfig(str(tmp_path), **(SETTINGS | changes))


@pytest.mark.parametrize(("ratio", "low", "high"), [({}, 3e-4, 4e-4), (None, 0.2, None)])
def test_the_clip_is_gspos_with_the_ratio_channel_and_trls_without(ratio, low, high, tmp_path):
    config = RoVRAsyncConfig(str(tmp_path), ratio_channel=ratio)
    assert (config.epsilon, config.epsilon_high) == (low, high)


def test_a_config_of_trls_own_and_a_version_that_was_not_tested_are_refused(path, tmp_path):
    with pytest.raises(TypeError, match="needs a RoVRAsyncConfig"):
        build(path, tmp_path, config=module.AsyncGRPOConfig)
    with pytest.raises(rovrl.RovrlError, match=r"trl 1.17.0 .* asynchronous trainer .* pip install 'trl>=1.16,<1.17'"):
        check_async_trl("1.17.0")
