"""A tiny TRL job with the HTTP reward and a server that fails: memory and descriptors flat, every step's records readable."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

import tiny
from reward_servers import running_apart
from rovrl.records import read_notes, read_steps
from rovrl.records.files import CALLS
from rovrl.tasks.remote import HttpReward


class Gauge(TrainerCallback):
    """Resident megabytes and open descriptors after every step."""

    def __init__(self):
        self.megabytes: list[float] = []
        self.descriptors: list[int] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        with open("/proc/self/statm") as pages:
            self.megabytes.append(int(pages.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20))
        self.descriptors.append(len(os.listdir("/proc/self/fd")))


def run(generations: int, directory: Path, share: float = 0.3) -> dict[str, float]:
    """Growth over the second half of the run, when everything has been loaded and compiled, and what was recorded."""
    gauge = Gauge()
    with running_apart(0, share) as url:
        reward = HttpReward(url, batch=2, timeout=0.5, pause=0.01, patience=86_400.0)  # it may be suspended
        reward.breaker.pause = 0.05
        trainer = tiny.trainer(
            directory,
            rewards=reward,
            max_steps=generations,
            steps_per_generation=1,
            per_device_train_batch_size=8,
            num_generations=8,
            max_completion_length=4,
            record_dir=str(directory / "records"),
            logging_steps=50,
        )
        trainer.add_callback(gauge)
        trainer.train()
    half, tenth = generations // 2, max(generations // 10, 1)
    early, late = gauge.megabytes[half : half + tenth], gauge.megabytes[-tenth:]
    return {
        "generations": trainer.state.global_step,
        "scores asked for": reward.tally.asked,
        "none": reward.failures,
        "retries": reward.tally.retries,
        "records readable": (readable := sum(1 for _ in read_steps(directory / "records"))),
        "records missing": generations - readable,
        "retries in the notes": sum(
            notes[CALLS]["reward_server/retries"] for _, notes in read_notes(directory / "records")
        ),
        "megabytes, middle": sum(early) / len(early),
        "megabytes grown in the second half": sum(late) / len(late) - sum(early) / len(early),
        "descriptors grown in the second half": max(gauge.descriptors[-tenth:])
        - max(gauge.descriptors[half : half + tenth]),
    }
