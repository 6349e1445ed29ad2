"""Math on verl's real trainer with a tiny model: our data file, our reward in verl's reward workers, update, validation."""

import pytest

from integration.verl_harness import tiny
from integration.verl_harness.launch import ACTOR, SEQUENCE_LOSS, launch
from rovrl.tasks import prepare
from samples_tasks import PROBLEMS, write_lines


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
        "algorithm.adv_estimator=rovr",
        "+algorithm.rovr.replaced_per_block=0",
        f"{ACTOR}.policy_loss.loss_mode=rovr_gspo",
        *SEQUENCE_LOSS,
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
