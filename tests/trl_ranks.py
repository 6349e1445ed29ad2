"""One rank of a run of RoVRTrainer whose responses do not depend on how many ranks there are: `python trl_ranks.py OUT`.

Started by tests/integration/trl/test_distributed.py, alone or under torchrun.
"""

import json
import os
import sys
from pathlib import Path

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

import torch

import tiny
from rovrl.integrations.trl.trainer import ROW

RESPONSES, TOKENS = 48, 12


def rollout(prompts, trainer):
    """Random tokens of the whole generation, of which each rank takes its share: the same for any number of ranks."""
    tokens = tiny.tokenizer()
    draw = torch.Generator().manual_seed(trainer.state.global_step)
    every = torch.randint(3, 60, (RESPONSES, TOKENS), generator=draw).tolist()
    first = trainer.accelerator.process_index * len(prompts)
    return {
        "prompt_ids": [tokens(prompt)["input_ids"] for prompt in prompts],
        "completion_ids": every[first : first + len(prompts)],
        "logprobs": [[-4.0] * TOKENS for _ in prompts],
    }


def spike(rewards, generation):
    labels = [""] * len(rewards)
    rewards[generation], labels[generation] = 50.0, "spike"
    return rewards, labels


def main(out: Path) -> None:
    torch.set_num_threads(1)
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    trainer = tiny.trainer(
        out,
        rollout_func=rollout,
        reward_transform=spike,
        per_device_train_batch_size=RESPONSES // ranks,  # with 2 ranks the second group of 16 lies on both
        steps_per_generation=1,
        num_iterations=2,
        max_steps=6,
        epsilon=0.03,
        epsilon_high=0.04,
        reward_channel={"scale_source": "lagged", "credit_bound": "adaptive"},
        record_dir=str(out / "records"),
    )
    trainer.train()
    batch = trainer._buffered_inputs[0]
    rank = trainer.accelerator.process_index
    found = {
        "rows": batch[ROW].tolist(),
        "advantages": batch["advantages"].tolist(),
        "lagged": trainer.reward_run.state_dict(),
        "log": trainer.state.log_history,
    }
    (out / f"rank{rank}.json").write_text(json.dumps(found))
    if rank == 0:
        torch.save([p.detach() for p in trainer.model.parameters()], out / "parameters.pt")
    tiny.leave(trainer)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
