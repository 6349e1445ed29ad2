"""SIGKILLs at random moments of an evaluation and of a training run, each continued: the same results as without them.

The commands run in forked copies of a process that has imported what they need, so that a restart costs what the command does
and not what Python imports; the moment of a kill is drawn from the whole length of an undisturbed run.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import tiny
from rovrl.cli import main
from rovrl.evaluate.results import read_records
from rovrl.output.files import read_lines, write_lines
from rovrl.records import read_steps
from rovrl.train.checkpoints import last_checkpoint
from rovrl_paper.lab.run import CLOCKS

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["soak.kills", "rovrl.train.custom", "rovrl.evaluate.run", "rovrl.evaluate.engine"])

Words = Callable[[Path], list[str]]
"""the command that begins or continues the work in a directory"""
Outcome = Callable[[Path], dict[str, object]]
"""what the finished work left there, without its clocks"""


def evaluation(kills: int, seed: int, directory: Path) -> dict[str, float]:
    """Kills `rovrl eval`: every response of the continued evaluations is compared with an undisturbed one's."""
    model = tiny.saved(directory / "model")
    rows = [{"id": f"q{n}", "problem": f"{n}+1", "answer": str(n + 1)} for n in range(24)]
    write_lines(directory / "amc23.jsonl", rows)
    how = ["--samples", "2", "--max-new-tokens", "24", "--chunk", "1", "--seed", "3", "--device", "cpu"]

    def words(out: Path) -> list[str]:
        return ["eval", model, "--suite", "amc23", "--data", str(directory), "--out", str(out), *how]

    def outcome(out: Path) -> dict[str, object]:
        records = [{**record, "seconds": None} for record in read_records(out / "amc23.jsonl")]
        return {**dict(enumerate(records)), "results": json.loads((out / "results.json").read_text())}

    return _killed(words, outcome, kills, seed, directory)


def training(kills: int, seed: int, directory: Path) -> dict[str, float]:
    """Kills `rovrl train --config`: weights, metrics and records of continued runs are compared with an undisturbed one's."""
    settings = {
        "model_name_or_path": tiny.saved(directory / "model"), "dataset_name": str(directory / "prompts.jsonl"),
        "reward_funcs": ["tiny.digit_share"], "contamination": ["spikes:rate=0.2,size=4"],
        "reward_channel": {"credit_bound": "adaptive", "credit_floor": "adaptive"}, "num_generations": 16,
        "per_device_train_batch_size": 16, "steps_per_generation": 2, "max_completion_length": 12, "max_steps": 12,
        "save_steps": 2, "save_total_limit": 2, "logging_steps": 1, "learning_rate": 1e-3, "report_to": "none",
        "use_cpu": True, "bf16": False, "gradient_checkpointing": False, "disable_tqdm": True,
    }  # fmt: skip
    (directory / "run.yaml").write_text(json.dumps(settings))
    write_lines(directory / "prompts.jsonl", tiny.addition().to_list())

    def words(out: Path) -> list[str]:
        again = ["--resume"] if last_checkpoint(out) else []
        return ["train", "--config", str(directory / "run.yaml"), "--out", str(out), *again]

    def outcome(out: Path) -> dict[str, object]:
        rows = [{k: v for k, v in row.items() if k not in CLOCKS} for row in read_lines(out / "metrics.jsonl")]
        records = {step: table.to_pylist() for step, table in read_steps(out / "records")}
        weights = {file: (out / file).read_bytes() for file in ("model.safetensors", "checkpoint-12/model.safetensors")}
        return {"metrics": rows[:12], **records, **weights}  # the last row is the summary, with rates by the clock

    return _killed(words, outcome, kills, seed, directory)


def _killed(words: Words, outcome: Outcome, kills: int, seed: int, directory: Path) -> dict[str, float]:
    """Begins the work, kills and continues it until it ends, and again in another directory, until `kills` have struck."""
    draw, done, runs, differ = random.Random(seed), 0, 0, 0
    log = directory / "log.txt"
    _ran(["--help"], log)  # by now everything is imported
    _, length = _ran(words(directory / "whole"), log)
    whole = outcome(directory / "whole")
    while done < kills:
        out, before = directory / f"cut-{runs}", done
        while True:
            struck, seconds = _ran(words(out), log, draw.uniform(0.0, length) if done < kills else None)
            if not struck:
                break
            done += 1
        if done == before:  # it came through: how long it takes now that every cache is warm
            length = min(length, seconds)
        found = outcome(out)
        differ += sum(found.get(name) != value for name, value in whole.items()) + len(found.keys() - whole.keys())
        runs += 1
    return {"kills": done, "runs": runs, "compared": runs * len(whole), "that differ": differ}


def _ran(words: list[str], log: Path, limit: float | None = None) -> tuple[bool, float]:
    """(whether it was killed, its seconds): the command, killed with its process group if it runs for `limit` seconds."""
    leading, led = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=_command, args=(words, str(log), led))
    process.start()
    led.close()
    leading.recv()  # it leads a process group now, which can be killed
    start = time.monotonic()
    process.join(limit)
    if process.is_alive() and process.pid is not None:
        os.killpg(process.pid, signal.SIGKILL)
        process.join()
    if process.exitcode not in (0, -signal.SIGKILL):
        raise RuntimeError(f"the command failed:\n{log.read_text()[-4000:]}")
    return process.exitcode != 0, time.monotonic() - start


def _command(words: list[str], log: str, led) -> None:
    os.setsid()
    with open(log, "w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    led.send(True)
    sys.exit(main(words))
