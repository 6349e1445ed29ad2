"""`rovrl train --config run.yaml`: a practitioner's model, data and reward under RoVRTrainer.

Works under `accelerate launch -m rovrl.train --config run.yaml` as well: every process comes through here, the first writes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import TrainerCallback

from rovrl.errors import RovrlError
from rovrl.integrations.trl import RoVRTrainer
from rovrl.output.files import append_lines, write_json
from rovrl.records import keep_steps_up_to
from rovrl.train.checkpoints import COMPLETE, keep_lines_up_to, last_checkpoint, step_of, storage_sentence
from rovrl.train.contamination import Contamination, contaminate, parse
from rovrl.train.settings import Custom, load_data, missing_model, read, settings_in

DURATION = ("max_steps", "num_train_epochs")
"""How long a run lasts: what a resume may change without a word."""
CHANGES = "changes.json"
"""In the output directory beside the copy of run.yaml: the settings that went over it."""


def run(config: str, resume: bool = False, out: str | None = None, changes: Mapping[str, Any] | None = None) -> int:
    """Trains, saves the model in the output directory, and prints where everything is.

    `changes` go over the settings of the file. A finished run is left as it is, unless it is now to run longer.
    """
    custom = read(config, out, changes or {})
    place = Path(custom.training.output_dir)
    if resume and _is_finished(custom, place):
        print(f"the run in {place} is finished: nothing to do (a larger max_steps or num_train_epochs goes on with it)")
        return 0
    wrong = missing_model(custom.model.model_name_or_path)
    if wrong:
        raise RovrlError(f"{config}: {wrong}")
    if resume and out and not place.is_dir():
        raise RovrlError(f"there is no run in {out} to go on with; leave out --resume to begin one there")
    trainer = build(custom, _prepare(custom, place, resume))
    checkpoint = last_checkpoint(place) if resume else None
    if trainer.is_world_process_zero():
        keep_lines_up_to(place / "metrics.jsonl", step_of(checkpoint) if checkpoint else -1)
    try:
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        trainer.save_model(str(place))
    except OSError as error:
        raise storage_sentence(error, place) from error
    if trainer.is_world_process_zero():
        result = {"steps": trainer.state.global_step, "log": trainer.state.log_history[-1:], "lasts": _duration(custom)}
        write_json(place / "result.json", result)
        print(f"model, checkpoints and metrics.jsonl: {place}; records: {custom.training.record_dir}")
        print(f"what the rewards and ratios looked like: rovrl audit {place}")
    return 0


def build(custom: Custom, log: TrainerCallback) -> RoVRTrainer:
    """The trainer, with TRL's own handling of adapters, quantization and model settings."""
    from trl.trainer.utils import get_peft_config, get_quantization_config

    train, test = load_data(custom)
    model, training = custom.model, custom.training
    chosen = {"revision": model.model_revision, "attn_implementation": model.attn_implementation, "dtype": model.dtype}
    training.model_init_kwargs = {k: v for k, v in chosen.items() if v is not None} | (training.model_init_kwargs or {})
    plan = [parse(text) for text in custom.contamination]
    extra: dict[str, Any] = {}
    quantization = get_quantization_config(model)
    if quantization is not None:
        extra["quantization_config"] = quantization
    try:
        return RoVRTrainer(
            model=model.model_name_or_path,
            reward_funcs=custom.reward_funcs,
            args=training,
            train_dataset=train,
            eval_dataset=test,
            peft_config=get_peft_config(model),
            callbacks=[log],
            reward_transform=Corruption(plan, training.seed, training.num_generations or 1) if plan else None,
            **extra,
        )
    except (OSError, ValueError) as error:
        raise RovrlError(f"{custom.source}: {' '.join(str(error).split())}") from error


class Corruption:
    """A `reward_transform` that plants corruption into the first reward function's rewards."""

    def __init__(self, plan: Sequence[Contamination], seed: int, group: int) -> None:
        self.plan, self.seed, self.group = plan, seed, group

    def __call__(self, rewards: torch.Tensor, generation: int) -> tuple[torch.Tensor, list[str]]:
        """[response, function] rewards with the first column corrupted, and what was done to each response."""
        groups = np.arange(len(rewards)) // self.group
        first = rewards[:, 0].double().cpu().numpy()
        damaged, labels = contaminate(first, groups, self.plan, np.random.default_rng([self.seed, generation]))
        changed = rewards.clone()
        changed[:, 0] = torch.from_numpy(damaged).to(rewards)
        return changed, labels


class RunLog(TrainerCallback):
    """metrics.jsonl as it grows, and the mark on every whole checkpoint."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        """One line per logging step."""
        if state.is_world_process_zero and logs:
            append_lines(self.place / "metrics.jsonl", [{"step": state.global_step} | logs])

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The mark that a checkpoint is whole."""
        if state.is_world_process_zero:
            (Path(args.output_dir) / f"checkpoint-{state.global_step}" / COMPLETE).touch()


def _duration(custom: Custom) -> list[float]:
    return [getattr(custom.training, name) for name in DURATION]


def _is_finished(custom: Custom, place: Path) -> bool:
    try:
        return json.loads((place / "result.json").read_text())["lasts"] == _duration(custom)
    except (OSError, ValueError, KeyError):
        return False


def _changed(custom: Custom, place: Path) -> Iterator[tuple[str, Any, Any]]:
    """(setting, value when the run began, value now) of every setting that a resume would change; None: not set."""
    if not (place / "run.yaml").exists():
        return
    began = settings_in(str(place / "run.yaml"))
    with suppress(FileNotFoundError):
        began |= json.loads((place / CHANGES).read_text())
    now = settings_in(str(custom.source)) | dict(custom.changes)
    for name in sorted(began.keys() | now.keys()):
        if began.get(name) != now.get(name) and name not in DURATION:
            yield name, began.get(name), now.get(name)


def _prepare(custom: Custom, place: Path, resume: bool) -> RunLog:
    if resume and last_checkpoint(place) is None:
        print(f"{place} holds no whole checkpoint yet: the run begins at its first step")
        if custom.training.record_dir:
            keep_steps_up_to(custom.training.record_dir, 0)  # of the same run, before it was interrupted
    if not resume and last_checkpoint(place) is not None:
        raise RovrlError(f"{place} already holds checkpoints; go on with --resume or set another output_dir (--out)")
    for name, before, now in _changed(custom, place) if resume else ():
        print(f"{name} was {before!r} when this run began and is {now!r} from here on")
    try:
        place.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(custom.source, place / "run.yaml")
        write_json(place / CHANGES, dict(custom.changes))
    except OSError as error:
        raise RovrlError(f"cannot write to {place} ({error.strerror}); set another output_dir (--out)") from None
    return RunLog(place)
