"""`rovrl train` killed for real (SIGKILL, the whole process group) and continued: the same bytes as without the kill."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rovrl.output.files import read_lines

pytestmark = pytest.mark.slow

SMALL = {
    "--generations": "6",
    "--prompts": "2",
    "--group": "9",
    "--updates": "2",
    "--evaluate-every": "3",
    "--checkpoint-every": "2",
    "--warm-up-steps": "20",
    "--contaminate": "spikes:rate=0.2,size=4",
    "--method": "rovr-gspo-adaptive",
    "--workers": "1",
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def command(out: Path, *more: str) -> list[str]:
    settings = [word for pair in SMALL.items() for word in pair]
    return [sys.executable, "-m", "rovrl.train", *settings, "--out", str(out), *more]


def environment(cache: Path) -> dict[str, str]:
    return os.environ | {"ROVRL_CACHE": str(cache), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def finish(out: Path, cache: Path, *more: str) -> None:
    done = subprocess.run(command(out, *more), env=environment(cache), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def kill_when(out: Path, cache: Path, reached) -> None:
    """Starts the command in a process group of its own and kills the whole group, its worker too, once `reached()`."""
    process = subprocess.Popen(command(out), env=environment(cache), stdout=subprocess.DEVNULL, start_new_session=True)
    while not reached():
        assert process.poll() is None, "the run ended before it could be killed"
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.fixture(scope="module")
def uninterrupted(cache, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "run"
    finish(out, cache)
    return out / "rovr-gspo-adaptive-seed1"


def same_parameters(one: Path, other: Path) -> bool:
    files = [run / "checkpoints" / "checkpoint-12" / "model.safetensors" for run in (one, other)]
    return files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize("moment", ["before the first checkpoint", "in the middle of a generation", "while saving"])
def test_a_killed_run_ends_with_the_parameters_and_metrics_of_an_uninterrupted_one(
    moment, uninterrupted, cache, tmp_path
):
    out = tmp_path / "run"
    run = out / "rovr-gspo-adaptive-seed1"
    reached = {
        "before the first checkpoint": lambda: len(read_lines(run / "metrics.jsonl")) >= 2,
        "in the middle of a generation": lambda: len(read_lines(run / "metrics.jsonl")) >= 7,
        "while saving": lambda: (run / "checkpoints" / "checkpoint-8").exists(),
    }[moment]
    kill_when(out, cache, reached)
    assert not (run / "result.json").exists()
    finish(out, cache, "--resume")
    assert same_parameters(run, uninterrupted)
    for name in ("metrics.jsonl", "evaluations.jsonl"):
        assert (run / name).read_text() == (uninterrupted / name).read_text()
    records = sorted(file.name for file in (run / "records").iterdir())
    assert records == sorted(file.name for file in (uninterrupted / "records").iterdir())


def test_a_finished_run_is_left_alone_by_resume(uninterrupted, cache):
    before = (uninterrupted / "result.json").stat().st_mtime_ns
    finish(uninterrupted.parent, cache, "--resume")
    assert (uninterrupted / "result.json").stat().st_mtime_ns == before
