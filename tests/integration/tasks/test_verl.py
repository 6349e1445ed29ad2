"""Our rewards on verl's real trainer with a tiny model: math by rule, and a learned one from a server that fails at times."""

import math

import pytest

from integration.verl_harness import tiny
from integration.verl_harness.launch import ACTOR, SEQUENCE_LOSS, launch
from reward_servers import running
from rovrl.records import read_notes
from rovrl.records.join import join
from rovrl.tasks import prepare
from samples_tasks import PROBLEMS, write_lines

ROVR = (
    "algorithm.adv_estimator=rovr",
    "+algorithm.rovr.replaced_per_block=0",
    f"{ACTOR}.policy_loss.loss_mode=rovr_gspo",
    *SEQUENCE_LOSS,
)


@pytest.mark.slow
def test_the_math_task_runs_on_verls_own_trainer(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_raylet_start_wait_time_s", "300")  # a busy machine starts Ray slowly
    raw, data = tmp_path / "raw", tmp_path / "data"
    raw.mkdir()
    for name in ("math_train", "math500", "aime2025", "amc23", "gaokao2023en", "minervamath"):
        write_lines(raw / f"{name}.jsonl", PROBLEMS)
    assert prepare.main(["math", "--data", str(raw), "--out", str(data)]) == 0
    run = launch(
        tmp_path / "run",
        tiny.make(tmp_path / "tiny"),
        *ROVR,
        f"data.train_files={data}/math_train.parquet",
        f"data.val_files={data}/amc23.parquet",
        "data.max_prompt_length=256",
        "reward.custom_reward_function.path=pkg://rovrl.tasks.math",
        "reward.custom_reward_function.name=compute_score",
        "trainer.val_before_train=True",
        steps=1,
    )
    assert run.wait(1500) == 0, run.tail()
    step = run.metrics()[1]
    assert 0.0 <= step["critic/score/mean"] <= 1.0
    dumped = run.rollouts(1)
    assert {row["gts"] for row in dumped} <= {row["answer"] for row in PROBLEMS}
    assert all(row["score"] in (0.0, 1.0) for row in dumped)
    assert any(key.startswith("val-core/amc23") for key in run.metrics()[1] | run.metrics().get(0, {}))


@pytest.mark.slow
def test_verls_trainer_asks_a_server_in_batches_and_logs_what_it_took(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_raylet_start_wait_time_s", "300")
    with running() as server:
        server.script = [503, "null"]
        run = launch(
            tmp_path / "run",
            tiny.make(tmp_path / "tiny"),
            *ROVR,
            f"{ACTOR}.policy_loss._target_=rovrl.integrations.verl.RoVRPolicyLossConfig",
            f"+{ACTOR}.policy_loss.record_dir={tmp_path}/recorded",
            "reward.custom_reward_function.path=pkg://rovrl.tasks.reward_model",
            f"+reward.custom_reward_function.reward_kwargs.url={server.url}",
            steps=1,
        )
        assert run.wait(1500) == 0, run.tail()
    scored = sum(server.sizes[2:])  # after a failed request, and one that was answered with null
    asked, step = scored + server.sizes[1], run.metrics()[1]
    assert asked == 16
    assert len(server.sizes) < 10
    rows = run.rollouts(1)
    assert all(math.isnan(row["score"]) or row["score"] == len(row["output"]) for row in rows)
    assert sum(math.isnan(row["score"]) for row in rows) == server.sizes[1]

    assert step["reward_server/requests"] == pytest.approx(len(server.sizes))
    assert step["reward_server/retries"] == pytest.approx(1.0)
    assert step["reward_server/none"] == step["reward_server/none/null"] == pytest.approx(server.sizes[1] / 16)
    assert 0.0 < step["reward_server/seconds/p50"] <= step["reward_server/seconds/p95"]
    assert step["reward_server/breaker_open"] == 0.0
    assert math.isfinite(step["actor/grad_norm"])

    join(tmp_path / "recorded", tmp_path / "records", run.directory / "rollouts")
    told = dict(read_notes(tmp_path / "records"))[1]["reward_calls"]
    assert told == {name: value for name, value in step.items() if name.startswith("reward_server/")}
