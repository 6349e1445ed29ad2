"""What RoVR-GSPO costs on verl: the real trainer beside itself with stock GRPO + GSPO, and the loss alone.

Both trainers run at the same time on the same machine, so that its load falls on both; a step's ratio is taken between the
same step of both. The tiny model makes the statistics look dear: on a real one the forward and backward pass dwarf them.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from integration.verl_harness import tiny
from integration.verl_harness.launch import ACTOR, SEQUENCE_LOSS, launch

RUNS = {
    "rovr": (
        "algorithm.adv_estimator=rovr",
        "+algorithm.rovr.replaced_per_block=0",
        f"{ACTOR}.policy_loss.loss_mode=rovr_gspo",
        *SEQUENCE_LOSS,
    ),
    "stock": ("algorithm.adv_estimator=grpo", f"{ACTOR}.policy_loss.loss_mode=gspo", *SEQUENCE_LOSS),
}
NAMES = {"step": "whole step", "update_actor": "update of the actor", "adv": "advantages"}
PARTS = tuple(NAMES)
WARM_UP = 2
"""Steps that compile, allocate and fill caches."""


def trainer_seconds(steps: int, response: int) -> dict[str, dict[str, list[float]]]:
    """run -> part of the step -> seconds of each step after the warm-up, as verl's own timers measured them."""
    with tempfile.TemporaryDirectory() as place:
        model = tiny.make(Path(place) / "tiny")
        length = f"data.max_response_length={response}"
        running = {
            name: launch(Path(place) / name, model, *settings, length, steps=steps + WARM_UP)
            for name, settings in RUNS.items()
        }
        found = {}
        for name, run in running.items():
            if run.wait(3600) != 0:
                raise RuntimeError(f"the {name} trainer failed:\n{run.tail()}")
            metrics = run.metrics()
            later = [metrics[step] for step in sorted(metrics) if step > WARM_UP]
            found[name] = {part: [data[f"timing_s/{part}"] for data in later] for part in PARTS}
    return found


def loss_seconds(repeats: int, responses: int, tokens: int) -> dict[str, list[float]]:
    """loss -> CPU seconds of forward and backward through verl's loss function, alternating, in this process."""
    import torch
    from verl.trainer.ppo.core_algos import get_policy_loss_fn
    from verl.workers.config import FSDPActorConfig

    from rovrl.integrations.verl import RoVRPolicyLossConfig

    generator = torch.Generator().manual_seed(0)
    old = -torch.rand(responses, tokens, generator=generator)
    new = old + 0.01 * torch.randn(responses, tokens, generator=generator)
    advantages = torch.randn(responses, 1, generator=generator).expand_as(old)
    mask = torch.ones_like(old, dtype=torch.bool)
    seconds: dict[str, list[float]] = {"rovr_gspo": [], "gspo": []}
    for _ in range(repeats + 1):
        for mode, taken in seconds.items():
            config = FSDPActorConfig(
                strategy="fsdp",
                rollout_n=16,
                ppo_micro_batch_size_per_gpu=responses,
                clip_ratio_low=3e-4,
                clip_ratio_high=4e-4,
                policy_loss=RoVRPolicyLossConfig(loss_mode=mode),
            )
            log_prob = new.clone().requires_grad_()
            start = time.process_time()
            loss, _ = get_policy_loss_fn(mode)(old, log_prob, advantages, mask, "seq-mean-token-mean", config)
            loss.backward()
            taken.append(time.process_time() - start)
    return {mode: taken[1:] for mode, taken in seconds.items()}  # the first of each warms up


def ratio(ours: list[float], stock: list[float]) -> tuple[float, float, float]:
    """The median of the paired ratios, and the interval between their quartiles."""
    ratios = sorted(a / b for a, b in zip(ours, stock, strict=True))
    low, median, high = statistics.quantiles(ratios, n=4)
    return median, low, high


def measure(quick: bool) -> dict[str, dict[str, float]]:
    """measurement -> ratio rovr/stock with its quartiles, and both medians in seconds."""
    seconds = trainer_seconds(*((6, 16) if quick else (24, 64)))
    pairs = {f"verl, {NAMES[part]}: rovr over stock": (seconds["rovr"][part], seconds["stock"][part]) for part in PARTS}
    responses, tokens = (4, 1024) if quick else (8, 8192)
    loss = loss_seconds(5 if quick else 20, responses, tokens)
    pairs[f"verl, the loss alone on {responses} x {tokens} tokens: rovr_gspo over gspo"] = (
        loss["rovr_gspo"],
        loss["gspo"],
    )
    return {
        name: dict(zip(("ratio", "low", "high"), ratio(ours, stock), strict=True))
        | {"rovr_seconds": statistics.median(ours), "stock_seconds": statistics.median(stock)}
        for name, (ours, stock) in pairs.items()
    }


def main(quick: bool) -> None:
    """Prints one line per measurement."""
    for name, found in measure(quick).items():
        print(
            "{name:<66} {ratio:.2f} (quartiles {low:.2f} to {high:.2f}), medians {rovr_seconds:.4f} s and "
            "{stock_seconds:.4f} s".format(name=name, **found)
        )


if __name__ == "__main__":
    main(quick="--quick" in sys.argv[1:])
