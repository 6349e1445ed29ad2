"""A whole training step of the embedded model (generate, score, update) with both channels beside plain GSPO's."""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import transformers

from measuring import Row
from rovrl_paper.lab.job import Job
from rovrl_paper.lab.models.warmup import WarmUp, warmed_up
from rovrl_paper.lab.run import build


def run(quick: bool) -> list[Row]:
    """CPU time of the same generations, method against method in turns; nothing is recorded, saved or evaluated."""
    transformers.logging.disable_progress_bar()
    recipe = replace(Job().warm_up, steps=20) if quick else Job().warm_up
    generations, repeats = (1, 3) if quick else (3, 7)
    methods = ("rovr-gspo", "gspo")
    pairs = [[_seconds(m, seed, generations, recipe) for m in methods] for seed in range(1, repeats + 2)]
    ratios = [ours / theirs for ours, theirs in pairs[1:]]  # the first pair compiled the kernels
    low, middle, high = statistics.quantiles(ratios, n=4)
    note = " / ".join(f"{statistics.median(side) / generations:.2f} s" for side in zip(*pairs[1:], strict=True))
    name = "a whole training step, both channels / plain GSPO, embedded model"
    return [Row(name, middle, low, high, must=1.05, goal=1.02, note=f"{note} a generation of 4 updates")]


def _seconds(method: str, seed: int, generations: int, recipe: WarmUp) -> float:
    with tempfile.TemporaryDirectory() as directory:
        warm = warmed_up(recipe)
        job = replace(
            Job(),
            method=method,
            seed=seed,
            generations=generations,
            record=False,
            warm_up=recipe,
            checkpoint_every=1000,
        )
        trainer = build(job, Path(directory), warm, [])
        start = time.process_time()
        trainer.train()
        return time.process_time() - start
