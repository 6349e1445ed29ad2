"""One of two gloo ranks that hold half of every packed response, as verl's Ulysses engine does: `spawn(rank, port, out)`."""

from __future__ import annotations

import warnings
from pathlib import Path

import torch
import torch.distributed as dist

LENGTHS, RANKS, PAD = (9, 4, 14, 6), 2, 1
"""33 tokens and one of padding at the tail, so that the shards are equal: the cut lies inside the third response."""


def batch() -> dict[str, torch.Tensor]:
    """Packed log-probabilities and advantages, float64, the same on every rank."""
    generator = torch.Generator().manual_seed(5)
    tokens = sum(LENGTHS)
    old = -torch.rand(tokens, generator=generator, dtype=torch.float64)
    new = old + 0.02 * torch.randn(tokens, generator=generator, dtype=torch.float64)
    return {"old": old, "new": new, "advantages": torch.randn(len(LENGTHS), generator=generator, dtype=torch.float64)}


def loss_of(packed: torch.Tensor, given: dict[str, torch.Tensor]) -> torch.Tensor:
    """Our policy loss on whole rows, as verl hands them to it after unpacking."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about engines and a GPU that are not there
        from verl.workers.config import FSDPActorConfig

        from rovrl.integrations.verl import rovr_gspo_loss
    config = FSDPActorConfig(strategy="fsdp", rollout_n=1, ppo_micro_batch_size_per_gpu=1, clip_ratio=0.02)
    rows = [torch.nn.utils.rnn.pad_sequence(x.split(LENGTHS), batch_first=True) for x in (given["old"], packed)]
    mask = (torch.arange(rows[0].shape[1]) < torch.tensor(LENGTHS).unsqueeze(1)).long()
    return rovr_gspo_loss(*rows, given["advantages"].unsqueeze(1) * mask, mask, config=config)[0]


def spawn(rank: int, port: int, out: str) -> None:
    """Writes the loss and the gradient of this rank's shard."""
    from verl.utils.ulysses import gather_outputs_and_unpad

    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=RANKS)
    given = batch()
    shard = torch.nn.functional.pad(given["new"], (0, PAD)).chunk(RANKS)[rank].clone().requires_grad_()
    whole = gather_outputs_and_unpad(shard, gather_dim=0, unpad_dim=0, padding_size=PAD, group=dist.group.WORLD)
    loss = loss_of(whole, given)
    loss.backward()
    torch.save({"loss": loss.detach(), "gradient": shard.grad}, Path(out) / f"rank{rank}.pt")
    dist.destroy_process_group()
