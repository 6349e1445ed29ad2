"""SIGKILLs at random moments of an evaluation and of a training run, each continued: the same bytes as without them."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import tiny
from rovrl.evaluate.store import read_records

Line = list[str]


def evaluation(directory: Path, kills: int, seed: int = 0) -> dict[str, float]:
    """Kills an evaluation `kills` times, lets it end, and compares every response with an undisturbed one's."""
    model = tiny.saved(directory / "model")
    rows = [{"id": f"q{n}", "problem": f"{n}+1", "answer": str(n + 1)} for n in range(12 * kills)]
    (directory / "amc23.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def command(out: Path) -> Line:
        words = ["eval", model, "--suite", "amc23", "--data", str(directory), "--out", str(out), "--samples", "2"]
        return [sys.executable, "-m", "rovrl", *words, "--max-new-tokens", "24", "--chunk", "1", "--seed", "3"]

    done = _killed(command(directory / "cut"), directory / "cut" / "amc23.jsonl", kills, seed)
    _finish(command(directory / "cut"))
    _finish(command(directory / "whole"))
    cut, whole = (read_records(directory / out / "amc23.jsonl") for out in ("cut", "whole"))
    for record in (*cut, *whole):
        del record["seconds"]
    return {
        "kills": done,
        "responses": len(whole),
        "responses that differ": sum(a != b for a, b in zip(cut, whole, strict=True)),
    }


def training(directory: Path, kills: int, seed: int = 0) -> dict[str, float]:
    """Kills a training run `kills` times, lets it end, and compares parameters and metrics with an undisturbed one's."""
    settings = {
        "--generations": 3 * kills, "--prompts": 2, "--group": 9, "--updates": 2, "--evaluate-every": 3 * kills,
        "--checkpoint-every": 2, "--warm-up-steps": 20, "--contaminate": "spikes:rate=0.2,size=4",
        "--method": "rovr-gspo-adaptive", "--workers": 1,
    }  # fmt: skip
    words = [str(word) for pair in settings.items() for word in pair]

    def command(out: Path) -> Line:
        return [sys.executable, "-m", "rovrl.train", *words, "--out", str(out)]

    os.environ["ROVRL_CACHE"] = str(directory / "cache")
    runs = [directory / out / "rovr-gspo-adaptive-seed1" for out in ("whole", "cut")]
    _finish(command(directory / "whole"))
    done = _killed(command(directory / "cut"), runs[1] / "metrics.jsonl", kills, seed, "--resume")
    _finish([*command(directory / "cut"), "--resume"])
    last = f"checkpoints/checkpoint-{6 * kills}/model.safetensors"
    differ = [name for name in (last, "metrics.jsonl") if len({(run / name).read_bytes() for run in runs}) > 1]
    return {"kills": done, "files that differ": len(differ)}


def _killed(command: Line, progress: Path, kills: int, seed: int, again: str = "") -> int:
    """Starts the command `kills` times and kills its whole process group each time, soon after it went on."""
    draw = random.Random(seed)
    done = 0
    for turn in range(kills):
        size = progress.stat().st_size if progress.exists() else 0
        words = [*command, again] if again and turn else command
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        _until(lambda size=size: progress.exists() and progress.stat().st_size != size, process)
        time.sleep(draw.uniform(0.0, 0.3))
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            done += 1
        process.wait()
    return done


def _until(reached: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    while not reached() and process.poll() is None:
        time.sleep(0.005)


def _finish(command: Line) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
