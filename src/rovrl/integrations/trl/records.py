"""Collects the rows of one generation while its updates run, and writes them when they are done."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object
from torch import Tensor

from rovrl.advantage import Explanation
from rovrl.credit import FORMULAS
from rovrl.records import RecordWriter, keep_steps_up_to
from rovrl.records.files import CALLS


@dataclass
class Generation:
    """One gathered generation: a row per response, the same on every rank."""

    step: int
    group_size: int
    prompts: Sequence[Any]
    completions: Sequence[Any]
    rewards: Tensor
    advantages: Tensor
    references: Tensor
    labels: Sequence[str]
    notes: Mapping[str, Any]


@dataclass
class Recorder:
    """Rows of the current generation on this rank; the main process's `writer` (others: None) gets them all."""

    writer: RecordWriter | None
    method: str
    clip: tuple[float, float]
    generation: Generation | None = None
    seen: list[tuple[int, int, int, Any]] = field(default_factory=list)
    """(update, row, length, log-ratios) per response and update position, of this rank."""
    update: int = -1
    """The update of this generation that is running, from 0."""
    optimizer_step: int | None = None
    """The trainer's number for it, which a further `train()` counts from 0 again."""
    next_step: int | None = None

    def start_run(self, resumed: bool) -> None:
        """Called before training: a run that neither resumes nor goes on must find its directory without records."""
        if self.writer is not None and self.next_step is None and not resumed:
            self.writer.must_be_empty()

    def begin(self, generation: Generation) -> None:
        """Starts a generation; what was collected of one that never finished (a resumed run) is dropped."""
        if self.writer is not None and generation.step != self.next_step:
            keep_steps_up_to(
                self.writer.directory, generation.step - 1
            )  # a resumed run makes the steps from here on again
        self.generation, self.seen = generation, []
        self.update, self.optimizer_step, self.next_step = -1, None, generation.step + 1

    def observe(self, optimizer_step: int, rows: Tensor, log_ratios: Tensor | None, mask: Tensor) -> None:
        """Takes in one batch: which responses, and their token log-ratios (None: fully on-policy, all are 0)."""
        if optimizer_step != self.optimizer_step:
            self.update, self.optimizer_step = self.update + 1, optimizer_step
        keep = mask.cpu().bool().numpy()
        ratios = None if log_ratios is None else log_ratios.detach().float().cpu().numpy()
        for i, row in enumerate(rows.tolist()):
            tokens = None if ratios is None else ratios[i][keep[i]]
            self.seen.append((self.update, row, int(keep[i].sum()), tokens))

    def write(self) -> None:
        """Gathers the rows of all ranks and writes them; every rank must call it.

        The generation stays open: training that goes on in the middle of it adds rows, and writes its file again.
        """
        if self.generation is None:
            return
        every = sorted(gather_object(self.seen), key=lambda entry: entry[:2])
        if self.writer is not None and every:
            self.writer.write_step(self.generation.step, self._columns(every), notes=self.generation.notes)
        self.optimizer_step = None

    def finish(self) -> None:
        """Writes the generation and lets go of it."""
        self.write()
        self.generation, self.seen = None, []

    def _columns(self, every: list[tuple[int, int, int, Any]]) -> dict[str, Any]:
        said = self.generation
        assert said is not None
        updates, rows, lengths, tokens = (list(column) for column in zip(*every, strict=True))
        index = torch.tensor(rows)
        return {
            "update": updates,
            "group": [f"{said.step}.{row // said.group_size}" for row in rows],
            "response": [row % said.group_size for row in rows],
            "prompt": [plain_text(said.prompts[row]) for row in rows],
            "completion": [plain_text(said.completions[row]) for row in rows],
            "reward": said.rewards[index],
            "advantage": said.advantages[index],
            "reference": said.references[index],
            "length": lengths,
            "clip_low": np.full(len(rows), self.clip[0]),
            "clip_high": np.full(len(rows), self.clip[1]),
            "log_ratios": tokens,
            "contamination": [said.labels[row] for row in rows],
            "method": [self.method] * len(rows),
        }


def recorder_for(trainer: Any) -> Recorder | None:
    """A recorder into `record_dir` with the run's settings, or None if there is none."""
    args = trainer.args
    if args.record_dir is None:
        return None
    writer = RecordWriter(args.record_dir, args.record_settings) if trainer.accelerator.is_main_process else None
    return Recorder(writer, args.method_name, (trainer.epsilon_low, trainer.epsilon_high))


def gathered_generation(trainer: Any, rewards: Tensor, labels: Sequence[str], info: Explanation | None) -> Generation:
    """The generation that `trainer` has just scored; TRL's own log holds the gathered texts and advantages."""
    group, count = trainer.num_generations, len(rewards)
    notes: dict[str, Any] = {"global_step": trainer.state.global_step}
    if info is None:
        reference = rewards.view(-1, group).nanmean(-1)
    else:
        has_reference = (info.finite_size >= 2) & (trainer.args.advantage in FORMULAS)
        reference = torch.where(has_reference, info.reference, torch.nan)
        notes |= info.notes | {"partition_seed": trainer.reward_run.partition_seed()}
        notes["blocks"] = {size: blocks.members for size, blocks in info.blocks.items()}
    if calls := _calls(trainer._metrics["train"]):
        notes[CALLS] = calls
    log = {name: list(trainer._logs[name])[-count:] for name in ("prompt", "completion", "advantages")}
    return Generation(
        step=trainer._generation,
        group_size=group,
        prompts=log["prompt"],
        completions=log["completion"],
        rewards=rewards,
        advantages=torch.tensor(log["advantages"], dtype=torch.float64),
        references=reference.repeat_interleave(group),
        labels=labels,
        notes=notes,
    )


def _calls(logged: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """What asking reward servers took in this generation, as the reward functions logged it: the means over ranks."""
    servers = tuple(name.removesuffix("breaker_open") for name in logged if name.endswith("/breaker_open"))
    return {name: values[-1] for name, values in logged.items() if servers and name.startswith(servers) and values}


def plain_text(message: Any) -> str:
    """A string as it is; a lone text message as its content; any other conversation as JSON."""
    if isinstance(message, str):
        return message
    if isinstance(message, list) and len(message) == 1 and isinstance(message[0].get("content"), str):
        return message[0]["content"]
    return json.dumps(message, ensure_ascii=False, default=_kind)


def _kind(part: Any) -> str:
    """What stands for an image or a sound in a record: its type and size, nothing that differs from run to run."""
    size = next(
        (each for each in (getattr(part, name, None) for name in ("shape", "size")) if isinstance(each, tuple)), ()
    )
    return f"<{' '.join([type(part).__name__, 'x'.join(map(str, size))]).strip()}>"
