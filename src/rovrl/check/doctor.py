"""`rovrl doctor`: whether a run's engine, names and settings are what the method needs, before a GPU is booked."""

from __future__ import annotations

import argparse
import importlib
import json
from collections.abc import Iterator
from dataclasses import asdict

from rovrl.check import Remark
from rovrl.errors import RovrlError

EXAMPLE = """\
examples:
  rovrl doctor --engine verl algorithm.adv_estimator=rovr actor_rollout_ref.rollout.n=16 \\
      actor_rollout_ref.actor.policy_loss.loss_mode=rovr_gspo actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-mean \\
      actor_rollout_ref.actor.clip_ratio_low=3e-4 actor_rollout_ref.actor.clip_ratio_high=4e-4 \\
      actor_rollout_ref.actor.use_dynamic_bsz=true actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=true
  rovrl doctor --engine verl --config-dir recipes/verl_math/config --config-name rovr_math
  rovrl doctor --engine trl --config examples/run.yaml learning_rate=5e-7
  rovrl doctor --engine trl num_generations=16 per_device_train_batch_size=16 steps_per_generation=4 \\
      reward_channel='{num_blocks: 3}'

Give the engine's settings as you give them to the run. Exit status: 0 nothing wrong, 1 a problem, 2 unusable input.
"""

CHECKS = {"verl": "rovrl.check.verl", "trl": "rovrl.check.trl"}
"""engine -> module with `check(args) -> Iterator[Remark]`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("--engine", choices=sorted(CHECKS), required=True, help="what the run trains with")
    parser.add_argument(
        "settings", nargs="*", metavar="SETTING", help="as the run gets them: key=value, for verl also +key=value"
    )
    parser.add_argument(
        "--config", metavar="YAML", help="trl: the run's file; its model, data and rewards are looked at"
    )
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.add_argument("--config-dir", help="verl: a directory with your own Hydra configuration")
    parser.add_argument("--config-name", default="ppo_trainer", help="verl: its name (default: verl's ppo_trainer)")
    ray = parser.add_mutually_exclusive_group()
    ray.add_argument(
        "--ray-address", default="local", help="verl: look into every node of this cluster (default: a local one)"
    )
    ray.add_argument("--no-ray", action="store_true", help="verl: do not start Ray to look into a worker")


def run(args: argparse.Namespace) -> int:
    """Prints one line per finding as it comes, and a last one that sums up; returns 1 if there is a problem."""
    if args.config and args.engine != "trl":
        raise RovrlError("--config is TRL's run.yaml; verl's files are given by --config-dir and --config-name")
    counts = dict.fromkeys(("ok", "note", "warning", "problem"), 0)
    found = []
    for finding in check(args):
        counts[finding.level] += 1
        found.append(asdict(finding))
        if not args.json:
            print(f"{finding.level:<8} {finding.text}", flush=True)
    if args.json:
        print(json.dumps({"engine": args.engine, "counts": counts, "findings": found}, indent=1))
        return 1 if counts["problem"] else 0
    if counts["problem"]:
        print(f"\n{_count(counts['problem'], 'problem')}: this run would fail, or would not be RoVR-GSPO.")
    elif counts["warning"]:
        print(f"\nNo problem, {_count(counts['warning'], 'warning')}.")
    else:
        print("\nNothing is wrong.")
    return 1 if counts["problem"] else 0


def check(args: argparse.Namespace) -> Iterator[Remark]:
    """The findings for `args.engine`."""
    return importlib.import_module(CHECKS[args.engine]).check(args)


def _count(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")
