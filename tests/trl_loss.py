"""A batch for TRL's loss, and what the loss makes of it: what the contracts with TRL compare."""

import torch

import tiny
from rovrl.integrations.trl.trainer import RoVRTrainer

TOLERANCE = 1e-5
"""float32: the log-probabilities (about 4) plus the shift are rounded to 2e-7, the weight moves by about 0.02; and the
trainer's compiled kernel and the plain one of the expectation round differently."""


def make(path, directory, kind=RoVRTrainer, **changes):
    made = tiny.trainer(directory, start=path, kind=kind, epsilon=0.03, epsilon_high=0.04, **changes)
    made.model.train()
    made.current_gradient_accumulation_steps = 2
    return made


def batch(trainer, generator, on_policy=False, tools=False, truncated=False, size=16, tokens=24):
    """What TRL hands to its loss: log-ratios with a spike each, so that SoftRoVR and the mean are far apart."""

    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    def ids(width):
        return torch.randint(3, 60, (size, width), generator=generator)

    lengths = torch.randint(12, tokens + 1, (size, 1), generator=generator)
    mask = (torch.arange(tokens) < lengths).long()
    if truncated:
        mask[::3] = 0
    prompt = ids(5)
    made = {
        "prompt_ids": prompt,
        "prompt_mask": torch.ones_like(prompt),
        "completion_ids": ids(tokens) * mask,
        "completion_mask": mask,
        "advantages": normal(size),
        "num_items_in_batch": mask.sum(),
    }
    if tools:
        made["tool_mask"] = (torch.rand(size, tokens, generator=generator) < 0.7).long()
    with torch.no_grad():
        whole = torch.cat([prompt, made["completion_ids"]], 1)
        seen = torch.cat([made["prompt_mask"], mask], 1)
        now = trainer._get_per_token_logps_and_entropies(trainer.model, whole, seen, tokens)[0]
    place = (torch.rand(size, 1, generator=generator) * lengths).long()
    spike = torch.zeros(size, tokens).scatter(1, place, normal(size, 1).sign())
    if not on_policy:
        made["old_per_token_logps"] = now + 0.01 * normal(size, tokens) + spike
    if trainer.beta:
        made["ref_per_token_logps"] = now + 0.1 * normal(size, tokens)
    return made


def outcome(trainer, compute, inputs):
    """The loss, the gradient of all parameters as one vector, and TRL's own metrics."""
    trainer.model.zero_grad()
    trainer._metrics["train"].clear()
    trainer._entropy_window_stats = None
    loss = compute(trainer.model, dict(inputs))
    loss.backward()
    gradient = torch.cat([p.grad.flatten() for p in trainer.model.parameters() if p.grad is not None])
    metrics = {k: v[-1] for k, v in trainer._metrics["train"].items() if not k.startswith("rovr/")}
    return loss.item(), gradient, metrics


def distance(a, b):
    return ((a - b).norm() / b.norm()).item()
