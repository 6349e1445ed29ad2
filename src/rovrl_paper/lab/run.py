"""Trains one `Job` with TRL's trainer and our two channels; called in a worker process, one thread."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch
import transformers
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback

from rovrl.integrations.trl import RoVRConfig, RoVRTrainer
from rovrl.output.files import append_lines, read_lines, write_json
from rovrl.records import keep_steps_up_to
from rovrl.train.checkpoints import COMPLETE, keep_lines_up_to, last_checkpoint, step_of, storage_sentence
from rovrl.train.contamination import parse
from rovrl_paper.lab import accuracy as evaluate
from rovrl_paper.lab.job import Job, Report, finished
from rovrl_paper.lab.methods import METHODS
from rovrl_paper.lab.models.mismatch import MismatchedRollouts
from rovrl_paper.lab.rewards import KINDS, EmbeddedReward, reward_functions

CLOCKS = ("step_time", "train_runtime", "train_samples_per_second", "train_steps_per_second", "total_flos", "epoch")
"""Logged by TRL and left out of metrics.jsonl, whose rows must be the same in every repetition of a run."""


class EmbeddedTrainer(MismatchedRollouts, RoVRTrainer):
    """Our trainer, with rollouts from a degraded copy where the job asks for them."""


def run(job: Job, directory: Path, warm: Path, report: Report = lambda event: None) -> dict[str, Any]:
    """The result of `job`, trained in `directory` from its last whole checkpoint, or from the start.

    `report` gets {"step", "steps"} after every optimizer step and {"step", "accuracy"} after every evaluation.
    """
    done = finished(directory)
    if done:
        return done
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    checkpoint = last_checkpoint(directory / "checkpoints")
    start = step_of(checkpoint) if checkpoint else -1
    for name in ("metrics.jsonl", "evaluations.jsonl"):
        keep_lines_up_to(directory / name, start)
    if checkpoint is None:
        keep_steps_up_to(directory / "records", 0)
    watch = Watch(job, directory, report)
    trainer = build(job, directory, warm, [watch])
    began = time.process_time()
    try:
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    except OSError as error:
        raise storage_sentence(error, directory) from error
    result = summary(job, directory) | {
        "cpu_seconds": round(time.process_time() - began, 1),
        "from_step": max(start, 0),
    }
    write_json(directory / "result.json", result)
    return result


def build(job: Job, directory: Path, warm: Path, callbacks: list[TrainerCallback]) -> EmbeddedTrainer:
    """The trainer of a job, at its start."""
    method = METHODS[job.method]
    clamp = KINDS[job.reward].clamp if method.clamp else None
    plan = [parse(text) for text in job.contamination]
    reward = EmbeddedReward(job.reward, job.seed, plan, clamp, method.told, job.updates, job.group, job.world.score)
    functions, corrupt = reward_functions(job.reward, reward)
    trainer = EmbeddedTrainer(
        model=AutoModelForCausalLM.from_pretrained(warm, dtype=torch.float32),
        reward_funcs=functions,
        args=settings(job, directory),
        train_dataset=Dataset.from_dict({"prompt": job.world.training_problems(job.world.problems, job.seed)}),
        processing_class=AutoTokenizer.from_pretrained(warm),
        callbacks=callbacks,
        reward_transform=corrupt,
    )
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.rollout_precision, trainer.recomputes = job.rollout, method.recomputes
    for callback in callbacks:
        if isinstance(callback, Watch):
            callback.trainer = trainer
    return trainer


def settings(job: Job, directory: Path) -> RoVRConfig:
    """The job as TRL's settings; those of the method come last."""
    chosen: dict[str, Any] = {"epsilon": job.clip_low, "epsilon_high": job.clip_high} | METHODS[job.method].settings()
    return RoVRConfig(
        output_dir=str(directory / "checkpoints"),
        record_dir=str(directory / "records") if job.record else None,
        **chosen,
        max_steps=job.steps,
        per_device_train_batch_size=job.prompts * job.group // job.updates,
        steps_per_generation=job.updates,
        gradient_accumulation_steps=1,
        num_generations=job.group,
        max_completion_length=job.world.max_response_tokens,
        temperature=1.0,
        beta=0.0,
        learning_rate=job.learning_rate,
        lr_scheduler_type="constant",
        warmup_steps=0,
        weight_decay=0.0,
        adam_beta2=0.99,
        max_grad_norm=1.0,
        seed=job.seed,
        logging_steps=1,
        save_strategy="steps",
        save_steps=job.checkpoint_every * job.updates,
        save_total_limit=2,
        report_to="none",
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        disable_tqdm=True,
    )


class Watch(TrainerCallback):
    """Writes metrics and evaluations as they arise, marks finished checkpoints, and reports progress."""

    trainer: EmbeddedTrainer

    def __init__(self, job: Job, directory: Path, report: Report) -> None:
        self.job, self.directory, self.report = job, directory, report

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Evaluates the warmed-up model, unless the run goes on from a checkpoint."""
        for row in read_lines(self.directory / "evaluations.jsonl"):
            self.report({"step": row["step"], "accuracy": row["accuracy"]})
        if state.global_step == 0:
            self.evaluate(0)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Evaluates every few generations, before the checkpoint of that step is written."""
        due = self.job.evaluate_every * self.job.updates
        if state.global_step % due == 0 or state.global_step == self.job.steps:
            self.evaluate(state.global_step)
        self.report({"step": state.global_step, "steps": self.job.steps})

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        """One line of metrics per optimizer step."""
        if logs and "train_runtime" not in logs:
            row = {"step": state.global_step} | {k: v for k, v in logs.items() if k not in CLOCKS}
            append_lines(self.directory / "metrics.jsonl", [row])

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The mark that the checkpoint is whole."""
        (Path(args.output_dir) / f"checkpoint-{state.global_step}" / COMPLETE).touch()

    def evaluate(self, step: int) -> None:
        """Greedy accuracy on the held-out problems; draws nothing from the run's generators."""
        trainer: Any = self.trainer
        right = evaluate.verdicts(trainer.model, trainer.processing_class, self.job.world)
        row = {"step": step, "generation": step // self.job.updates, **evaluate.as_row(right)}
        append_lines(self.directory / "evaluations.jsonl", [row])
        self.report({"step": step, "accuracy": row["accuracy"]})


def summary(job: Job, directory: Path) -> dict[str, Any]:
    """The result of a finished run: its learning curve and the averages of its diagnostics."""
    rows, curve = read_lines(directory / "metrics.jsonl"), read_lines(directory / "evaluations.jsonl")
    names = sorted({name for row in rows for name in row} - {"step"})
    values = {name: [row[name] for row in rows if isinstance(row.get(name), int | float)] for name in names}
    averages = {name: sum(numbers) / len(numbers) for name, numbers in values.items() if numbers}
    return {"job": job.to_dict(), "evaluations": curve, "averages": averages}
