"""The guides and the script say what the code does."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tiny
from rovrl.diagnostics import METRICS
from rovrl.records import COLUMNS, read_steps

ROOT = Path(__file__).parents[3]


def first_cells(text):
    """The code words in the first column of every table."""
    return [
        name
        for line in text.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    ]


def test_every_metric_is_explained_and_every_explained_metric_exists():
    assert sorted(first_cells((ROOT / "docs/metrics.md").read_text())) == sorted(METRICS)


def test_the_columns_of_records_are_those_in_the_guide():
    assert first_cells((ROOT / "docs/records.md").read_text()) == list(COLUMNS)


def test_the_settings_in_the_guide_are_fields_of_the_configuration():
    from rovrl.integrations.trl import RoVRConfig

    named = first_cells((ROOT / "docs/trl.md").read_text())
    assert len(named) > 6
    assert all(name in RoVRConfig.__dataclass_fields__ for name in named)


@pytest.mark.slow
@pytest.mark.parametrize(("credit_bound", "absent"), [(1.0, {"lagged_spread"}), ("adaptive", set())])
def test_a_run_logs_every_metric_in_training(credit_bound, absent, tmp_path):
    trainer = tiny.trainer(tmp_path, reward_channel={"credit_bound": credit_bound})
    trainer.train()
    logged = {name for entry in trainer.state.log_history for name in entry if name.startswith("rovr/")}
    others = {
        "variance_share",
        *(name for name in METRICS if name.startswith(("rejected", "merit_", "fault_", "rollout_"))),
    }
    assert logged == {f"rovr/{name}" for name in METRICS if name not in absent | others}


@pytest.mark.slow
def test_the_script_in_trls_style_trains_and_records(tmp_path):
    rows = [{"question": f"{a}+{b}=", "answer": f"so #### {a + b}"} for a in range(4) for b in range(4)]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    options = {
        "model_name_or_path": tiny.saved(tmp_path),
        "dataset_name": str(tmp_path / "data"),
        "output_dir": str(tmp_path / "out"),
        "record_dir": str(tmp_path / "records"),
        "num_generations": "16",
        "per_device_train_batch_size": "16",
        "steps_per_generation": "2",
        "max_completion_length": "4",
        "max_steps": "2",
        "report_to": "none",
        "ratio_channel": '{"units": "robust"}',
    }
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    environment = os.environ | {
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "HF_DATASETS_CACHE": str(tmp_path / "cache"),
    }
    command = [sys.executable, str(ROOT / "examples/trl_gspo.py"), *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    [(_, table)] = list(read_steps(tmp_path / "records"))
    assert table.num_rows == 32
    assert (tmp_path / "out" / "model.safetensors").exists()
