"""`rovrl train`: the embedded job with no arguments; with `--config run.yaml` the words go to `rovrl.train.train_command`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Any

from rovrl.errors import RovrlError
from rovrl.train import train_command as yaml_run
from rovrl.train.contamination import CONTAMINATIONS
from rovrl_paper.lab.job import SPIKES, Job
from rovrl_paper.lab.methods import METHODS, chosen
from rovrl_paper.lab.models.mismatch import PRECISIONS
from rovrl_paper.lab.models.worlds import WORLDS
from rovrl_paper.lab.rewards import KINDS

EXAMPLE = """\
examples:
  rovrl train                                            GSPO, RoVR-GSPO and its guarded settings side by side
  rovrl train --method gspo,rovr-gspo-adaptive --seeds 3 --compare
  rovrl train --contaminate spikes:rate=0.05,size=16 --contaminate failures:rate=0.02
  rovrl train --clean --method gspo,rovr-gspo            no planted corruption
  rovrl train --resume                                   resumes the newest run in runs/
  rovrl train --config run.yaml                          your model, data and reward (TRL's YAML)
  rovrl train --config run.yaml --method gspo --learning_rate 5e-7    the same with TRL's fields overridden
  rovrl train --model smollm2 --method rovr-gspo         a real 135M language model on few-shot addition
  rovrl train --sweep evidence --out results/embedded    the evidence: some hundred runs, resumable
  rovrl train --sweep smollm2 --out results/smollm2-words    the same question to a real language model, hours
methods: """ + ", ".join(METHODS)
REWARD_HELP = (
    "score: like a learned one (the default); rule: the task's own, 0 to 1; bonus: rare right answers beside a small bonus; "
    "units: two data sets, graded 0/1 and 0 to 100; several: verifier, judge and length penalty as three functions"
)
CONTAMINATE_HELP = (
    f"planted corruption, repeatable (default: {SPIKES}; with decades=2: varied sizes, with clustering=0.3: rates that depend "
    f"on the prompt); kinds: {', '.join(CONTAMINATIONS)} (docs/train.md)"
)
TAKES_MORE = True
"""With --config: TRL's fields."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `rovrl train`."""
    default = Job()
    what = parser.add_argument_group("what to train")
    what.add_argument("--config", metavar="YAML", help="train your own model: TRL-style settings (docs/train.md)")
    what.add_argument(
        "--model", choices=list(WORLDS), default=default.model, help="embedded model and task (default: tiny)"
    )
    what.add_argument("--sweep", metavar="NAME", help="a whole set of runs by name: evidence, smollm2")
    what.add_argument(
        "--method",
        default=None,
        metavar="A,B",
        help="methods, separated by commas (default: gspo,rovr-gspo,rovr-gspo-guarded)",
    )
    what.add_argument("--seeds", type=int, default=1, metavar="N", help="seeds per method (default: 1)")
    what.add_argument("--first-seed", type=int, default=1, metavar="S", help="seeds are S, S+1, ... (default: 1)")
    world = parser.add_argument_group("the embedded job's world")
    world.add_argument("--reward", choices=list(KINDS), default=default.reward, help=REWARD_HELP)
    world.add_argument("--contaminate", action="append", metavar="SPEC", help=CONTAMINATE_HELP)
    world.add_argument("--clean", action="store_true", help="no planted corruption")
    world.add_argument("--rollout", choices=list(PRECISIONS), help="sample responses from a copy in this precision")
    size = parser.add_argument_group("its size")
    size.add_argument("--generations", type=int, default=None, help=f"default: {default.generations}")
    size.add_argument("--prompts", type=int, default=None, help=f"per generation (default: {default.prompts})")
    size.add_argument("--group", type=int, default=None, help=f"responses per prompt (default: {default.group})")
    size.add_argument("--updates", type=int, default=None, help=f"optimizer steps per generation ({default.updates})")
    size.add_argument("--learning-rate", type=float, default=None, help=f"default: {default.learning_rate}")
    size.add_argument("--clip-low", type=float, default=None, help=f"default: {default.clip_low}")
    size.add_argument("--clip-high", type=float, default=None, help=f"default: {default.clip_high}")
    size.add_argument(
        "--evaluate-every", type=int, default=None, help=f"generations (default: {default.evaluate_every})"
    )
    size.add_argument("--checkpoint-every", type=int, default=None, help=f"generations ({default.checkpoint_every})")
    size.add_argument(
        "--warm-up-steps", type=int, default=None, help=f"default: {default.warm_up.steps}, about a minute"
    )
    size.add_argument("--warm-up-seed", type=int, default=None, help="another warmed-up model (default: 0)")
    run = parser.add_argument_group("running")
    run.add_argument("--out", metavar="DIR", help="run directory (default: runs/<time>)")
    run.add_argument("--resume", action="store_true", help="go on with the run in --out (default: the newest in runs/)")
    run.add_argument("--compare", action="store_true", help="paired bootstrap intervals between all pairs of methods")
    workers = min(2, os.cpu_count() or 1)
    run.add_argument("--workers", type=int, default=workers, help=f"processes of one thread each (default: {workers})")


def run(args: argparse.Namespace) -> int:
    """Trains what the arguments ask for; 0 when everything is finished."""
    if args.config:
        words = args.words[1:]
        _refuse_embedded_options(yaml_run.parsed(words)[1])
        return yaml_run.run(words, _method_settings)
    if args.more:
        raise RovrlError(f"unknown option {args.more[0]}; `rovrl train --help` lists them (TRL's fields need --config)")
    if args.sweep:
        from rovrl_paper.lab.evidence import sweep

        return sweep.run(args)
    from rovrl_paper.lab import embedded

    return embedded.run(args, default=parsed([]))


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """The arguments of `rovrl train WORDS`, for code that runs the command itself."""
    parser = argparse.ArgumentParser(prog="rovrl train")
    add_arguments(parser)
    args = parser.parse_args(words)
    args.words, args.more = ["train", *words], []
    return args


def _refuse_embedded_options(fields: Sequence[str]) -> None:
    """An option of the embedded job is none of TRL's fields, whose names have underscores."""
    embedded = {f"--{name.replace('_', '-')}" for name in vars(parsed([]))}
    given = next((word for word in (field.partition("=")[0] for field in fields) if word in embedded), None)
    if given:
        raise RovrlError(
            f"{given} describes the embedded job and would be ignored with --config; use TRL's own field for it "
            "in the YAML or as --field value (for example --max_steps 100, --learning_rate 1e-6)"
        )


def _method_settings(name: str) -> dict[str, Any]:
    """The fields of RoVRConfig that make a run the named method."""
    (method, *others) = chosen(name)
    if others:
        raise RovrlError(
            f"--method {name}: a run with --config trains one method; start one run for each, with another --out"
        )
    if METHODS[method].clamp:
        raise RovrlError(
            f"--method {method} clamps the embedded job's reward; with --config, clamp in your reward function"
        )
    return METHODS[method].settings()
