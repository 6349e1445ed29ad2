"""TRL's asynchronous GRPO trainer on a machine without a GPU: a rollout worker and a weight transfer inside the process, and
the two things that the trainer asks of a GPU, its name and its attention kernel, in plain torch.
"""

from __future__ import annotations

import math
import queue
import types
import warnings
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM

import tiny

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # TRL says that this part of it is experimental
    import trl.experimental.async_grpo.async_grpo_trainer as module
    from trl.experimental.async_grpo import packing
    from trl.experimental.async_grpo.async_rollout_worker import RolloutSample

from rovrl.integrations.trl.async_grpo import RoVRAsyncConfig, RoVRAsyncTrainer

SETTINGS = {
    "per_device_train_batch_size": 16,
    "num_generations": 8,
    "max_steps": 3,
    "token_budget": 0,
    "learning_rate": 1e-2,
    "report_to": "none",
    "save_strategy": "no",
    "gradient_checkpointing": False,
    "disable_tqdm": True,
    "epsilon": 0.03,
    "epsilon_high": 0.04,
}
PROMPTS = ["1+1=", "2+3=", "4+5=", "6+1="]


def without_gpu(monkeypatch: Any) -> None:
    """The GPU's name is asked for a percentage of its peak speed, None where it is unknown; the kernel is FlashAttention 3."""
    monkeypatch.setattr(module, "get_peak_flops_per_device", lambda *_: None)
    monkeypatch.setattr(packing, "_flash_attn", lambda: types.SimpleNamespace(flash_attn_varlen_func=attention))


def attention(q, k, v, cu_q, cu_k, max_q, max_k, softmax_scale=None, causal=True, window_size=(-1, -1)):
    """Causal attention of segments that lie one behind the other, [token, head, d]; each sees its path of keys, the end of
    which it is."""
    assert causal
    assert window_size == (-1, -1)
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    outcome = []
    for i in range(len(cu_q) - 1):
        a, b, c, d = (int(x) for x in (cu_q[i], cu_q[i + 1], cu_k[i], cu_k[i + 1]))
        scores = torch.einsum("qhd,khd->hqk", q[a:b], k[c:d]) * (softmax_scale or q.shape[-1] ** -0.5)
        seen = torch.arange(d - c) <= torch.arange(d - c - (b - a), d - c).unsqueeze(-1)
        outcome.append(torch.einsum("hqk,khd->qhd", scores.masked_fill(~seen, -math.inf).softmax(-1), v[c:d]))
    return torch.cat(outcome)


class Worker:
    """Samples from a copy of the policy, which the weight transfer (itself) keeps up to date: TRL's two protocols in one.

    For each version of the policy it makes one batch of whole groups, for the first one two: each batch is trained on when
    the policy has moved on. `rewards(text, group, place)` scores a response.
    """

    def __init__(self, path: str, rewards: Any, group: int = 8, prompts: int = 2, tokens: int = 10) -> None:
        self.rollout_buffer: queue.Queue = queue.Queue()
        self.metrics_queue: queue.Queue = queue.Queue()
        self.model = AutoModelForCausalLM.from_pretrained(path).eval()
        self.tokenizer, self.rewards = tiny.tokenizer(), rewards
        self.group, self.prompts, self.tokens, self.groups = group, prompts, tokens, 0
        self.made: list[RolloutSample] = []
        self.version, self.running = 0, False

    # RolloutWorkerProtocol

    def start(self) -> None:
        """The first batch, after the first weights."""
        self.running = True
        self.batch()
        self.batch()

    def stop(self) -> None:
        """Nothing is made any more."""
        self.running = False

    def update_model_version(self, model_version: int) -> None:
        """A batch of the new policy."""
        self.version = model_version
        if self.running:
            self.batch()

    def check_health(self, stale_after_s: float) -> None:
        """Called where nothing came in time: in this process it means that nothing will come."""
        raise RuntimeError("the rollout worker has nothing more")

    # WeightTransferProtocol

    def init_weight_transfer(self) -> None:
        """Nothing to set up."""

    pause = resume = destroy = init_weight_transfer

    def send_weights(self, iterator: Any) -> None:
        """The policy's weights into the copy."""
        missing, unexpected = self.model.load_state_dict({name: w.clone() for name, w in iterator}, strict=False)
        assert unexpected == []
        assert missing in ([], ["lm_head.weight"])  # tied

    # Sampling

    def batch(self) -> None:
        """Responses to some prompts, put into the queue group by group."""
        for _ in range(self.prompts):
            for sample in self.samples(PROMPTS[self.groups % len(PROMPTS)]):
                self.made.append(sample)
                self.rollout_buffer.put(sample)
            self.groups += 1

    @torch.no_grad()
    def samples(self, prompt: str) -> list[RolloutSample]:
        """A group; its advantages are TRL's."""
        start = torch.tensor(self.tokenizer(prompt)["input_ids"])
        generator = torch.Generator().manual_seed(self.groups)
        ids = start.repeat(self.group, 1)
        told = []
        for _ in range(self.tokens):
            log_probs = self.model(input_ids=ids).logits[:, -1].float().log_softmax(-1)
            drawn = torch.multinomial(log_probs.exp(), 1, generator=generator)
            told.append(log_probs.gather(1, drawn))
            ids = torch.cat([ids, drawn], 1)
        old = torch.cat(told, 1).numpy()
        texts = [self.tokenizer.decode(row[len(start) :]) for row in ids]
        scores = [self.rewards(text, self.groups, place) for place, text in enumerate(texts)]
        found = np.array(scores, dtype=float)
        advantages = np.nan_to_num((found - np.nanmean(found)) / (np.nanstd(found) + 1e-8))
        lengths = [self.tokens - place % 4 for place in range(self.group)]  # of several lengths
        return [
            RolloutSample(
                prompt=[{"role": "user", "content": prompt}],
                completion=[{"role": "assistant", "content": texts[i]}],
                input_ids=ids[i, : len(start) + lengths[i]].numpy(),
                completion_mask=np.repeat([0, 1], [len(start), lengths[i]]),
                old_log_probs=np.concatenate([np.zeros(len(start)), old[i, : lengths[i]]]).astype(np.float32),
                advantage=float(advantages[i]),
                model_version=self.version,
                group_id=self.groups,
                metrics={"reward": float(found[i])},
            )
            for i in range(self.group)
        ]


def digits(text, group, place):
    """The share of digits; a spike in every group, a score that is missing in every other."""
    share = sum(c.isdigit() for c in text) / len(text)
    return {3: 20.0, 5: math.nan if group % 2 else share}.get(place, share)


def build(path, directory, kind=RoVRAsyncTrainer, config=RoVRAsyncConfig, rewards=digits, **changes):
    """A trainer on the tiny model with a `Worker`; `changes` are fields of the config."""
    plain = {} if config is RoVRAsyncConfig else {"use_cpu": True, "bf16": False}
    args = config(str(directory), **(SETTINGS | plain | changes))
    worker = Worker(path, rewards, group=args.num_generations)
    trainer = kind(path, None, args, tiny.addition(), rollout_worker=worker, weight_transfer=worker)
    trainer.current_gradient_accumulation_steps = 1
    return trainer
