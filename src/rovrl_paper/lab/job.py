"""One run of the embedded job: one method, one seed, one directory; a killed run is resumed where it stopped.

config.json        the job, its versions, the digest of the warmed-up weights
metrics.jsonl      one line per optimizer step
evaluations.jsonl  one line per evaluation: accuracy and the verdict on each held-out problem
records/           every response with its reward, advantage, log-ratios and what was planted
checkpoints/       the last two; a checkpoint counts once its `complete` mark is there
result.json        written last: the run is finished
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from rovrl.errors import RovrlError
from rovrl.output.files import write_json
from rovrl.train.contamination import parse
from rovrl_paper.lab.methods import METHODS
from rovrl_paper.lab.models.warmup import WarmUp
from rovrl_paper.lab.models.worlds import WORLDS, World
from rovrl_paper.lab.rewards import KINDS

SPIKES = "spikes:rate=0.1,size=16"
Report = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Job:
    """Everything that decides a run of the embedded job."""

    method: str = "rovr-gspo"
    seed: int = 1
    model: str = "tiny"
    reward: str = "score"
    contamination: tuple[str, ...] = (SPIKES,)
    rollout: str | None = None
    """Precision of the copy that samples the responses; None = the policy itself."""
    generations: int = 40
    prompts: int = 16
    group: int = 16
    updates: int = 4
    """Optimizer steps per generation."""
    learning_rate: float = 2e-5
    clip_low: float = 3e-4
    clip_high: float = 4e-4
    evaluate_every: int = 10
    checkpoint_every: int = 5
    record: bool = True
    warm_up: WarmUp = field(default_factory=WarmUp)

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise RovrlError(f"method {self.method!r} is not known; choose one of {', '.join(METHODS)}")
        if self.model not in WORLDS:
            raise RovrlError(f"model {self.model!r} is not known; choose one of {', '.join(WORLDS)}")
        if self.reward not in KINDS:
            raise RovrlError(f"reward {self.reward!r} is not known; choose one of {', '.join(KINDS)}")
        if METHODS[self.method].recomputes and self.rollout is None:
            raise RovrlError(
                f"method {self.method} is for responses of a copy in another precision: add --rollout bfloat16, int8 or int4"
            )
        for text in self.contamination:
            parse(text)
        if self.group < 2:
            raise RovrlError(
                f"a group of {self.group} has nothing to be compared with: an advantage is a reward relative to the "
                "other responses to the same prompt; set --group to at least 2 (16 is the paper's)"
            )
        for name in ("generations", "prompts", "updates", "evaluate_every", "checkpoint_every"):
            if getattr(self, name) < 1:
                raise RovrlError(f"{name.replace('_', '-')} must be at least 1, not {getattr(self, name)}")
        if self.prompts * self.group % self.updates:
            raise RovrlError(
                f"{self.prompts} prompts x {self.group} responses cannot be split into {self.updates} equal updates; "
                "change --prompts, --group or --updates"
            )

    @property
    def steps(self) -> int:
        """Optimizer steps of the whole run."""
        return self.generations * self.updates

    @property
    def world(self) -> World:
        """The model and task of the job."""
        return WORLDS[self.model]

    @property
    def start(self) -> tuple[str, WarmUp]:
        """What decides the model that the run starts from."""
        return self.model, self.warm_up

    @property
    def label(self) -> str:
        """The name of the run's directory beside its siblings."""
        return f"{self.method}-seed{self.seed}"

    def to_dict(self) -> dict[str, Any]:
        """The job as plain values; `from_dict` is the inverse."""
        return asdict(self) | {"contamination": list(self.contamination)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Job:
        """The job that `to_dict` wrote."""
        return cls(**values | {"contamination": tuple(values["contamination"]), "warm_up": WarmUp(**values["warm_up"])})

    def with_(self, **changes: Any) -> Job:
        """The same job with some fields changed."""
        return replace(self, **changes)


def prepare(job: Job, directory: Path, resume: bool) -> None:
    """Makes the run's directory, or checks that the one that is there can be continued."""
    config = directory / "config.json"
    if config.exists():
        before = json.loads(config.read_text())["job"]
        if not resume:
            raise RovrlError(f"{directory} already holds a run; continue it with --resume or choose another --out")
        was, now = Job.from_dict(before).to_dict(), job.to_dict()
        changed = [name for name in now if now[name] != was[name]]
        if changed:
            raise RovrlError(
                f"{directory} holds a run with another {', '.join(changed)}; a resumed run must be the same job "
                "(choose another --out for a new one)"
            )
        return
    try:
        directory.mkdir(parents=True, exist_ok=True)
        write_json(config, {"job": job.to_dict(), "versions": versions()})
    except OSError as error:
        raise RovrlError(f"cannot write to {directory} ({error.strerror}); choose another --out") from None


def finished(directory: Path) -> dict[str, Any] | None:
    """The result of a finished run, or None."""
    try:
        return json.loads((directory / "result.json").read_text())
    except (OSError, ValueError):
        return None


def versions() -> dict[str, str]:
    """The versions a result depends on."""
    import platform
    from importlib.metadata import version

    packages = ("rovrl", "torch", "trl", "transformers", "accelerate", "datasets")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}


def preamble(job: Job) -> list[str]:
    """What is planted, in plain words."""
    lines = [
        *job.world.facts,
        f"Reward: {job.reward} ({KINDS[job.reward].formula}).",
        f"Planted corruption: {' and '.join(job.contamination)}, in units of {KINDS[job.reward].unit:g}; "
        "the same responses are hit for every method."
        if job.contamination
        else "Planted corruption: none.",
    ]
    if job.rollout:
        lines.append(f"Responses are sampled from a copy of the model with {job.rollout} weights.")
    return lines


def command() -> str:
    """The command that is running."""
    return " ".join(["rovrl", *sys.argv[1:]])
