"""One rank of a run of RoVRAsyncTrainer, whose first rank alone makes rollouts: `python async_ranks.py MODEL OUT`.

Started by tests/integration/trl/test_async.py, alone or under torchrun.
"""

import os
import sys
import types
from pathlib import Path

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

import torch

import async_rollouts
import tiny


def main(model: str, out: Path) -> None:
    torch.set_num_threads(1)
    async_rollouts.without_gpu(types.SimpleNamespace(setattr=setattr))
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    trainer = async_rollouts.build(
        model, out, per_device_train_batch_size=16 // ranks, save_strategy="steps", save_steps=2
    )
    trainer.train()
    if trainer.accelerator.process_index == 0:
        advantages = [sample.advantage for sample in trainer.rollout_worker.made[:48]]
        weights = torch.cat([weight.detach().flatten() for weight in trainer.model.parameters()])
        torch.save({"advantages": advantages, "weights": weights, "log": trainer.state.log_history}, out / "found.pt")
    tiny.leave(trainer)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
