"""A language model and a tokenizer small enough for tests: built here, nothing is downloaded."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

CHARACTERS = "0123456789+-*/=#;:.,!?()<>{}[]|_'\" \nabcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
CHAT_TEMPLATE = (
    "{% for message in messages %}<{{ message['role'] }}>{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def tokenizer() -> PreTrainedTokenizerFast:
    """One token per character, plus <pad>, <eos>, <unk>; pads on the left; has a plain chat template."""
    vocabulary = {token: i for i, token in enumerate(["<pad>", "<eos>", "<unk>", *CHARACTERS])}
    characters = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    characters.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    characters.decoder = decoders.Fuse()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=characters, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def model(
    hidden: int = 32, layers: int = 2, seed: int = 0, tie: bool = True, tokens: Any = None, positions: int = 256
) -> Qwen3ForCausalLM:
    """A Qwen3 with random weights of its own generator: the same for the same arguments, whatever ran before."""
    tokens = tokens or tokenizer()
    config = Qwen3Config(
        vocab_size=len(tokens),
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=positions,
        pad_token_id=tokens.pad_token_id,
        eos_token_id=tokens.eos_token_id,
        bos_token_id=None,
        tie_word_embeddings=tie,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen3ForCausalLM(config)


def saved(directory: str | os.PathLike[str], **changes: Any) -> str:
    """The path of model and tokenizer saved to `directory`: for settings that load a second copy by path."""
    path = Path(directory) / "tiny-model"
    if not (path / "config.json").exists():
        model(**changes).save_pretrained(path)
        tokenizer().save_pretrained(path)
    return str(path)


def addition(rows: int = 64) -> Dataset:
    """Prompts `a+b=` with the column `answer`."""
    pairs = [(i % 10, i * 7 % 10) for i in range(rows)]
    return Dataset.from_dict({"prompt": [f"{a}+{b}=" for a, b in pairs], "answer": [str(a + b) for a, b in pairs]})


def digit_share(completions: list[str], **_: Any) -> list[float]:
    """A reward that a random model gets some of: the share of digits."""
    return [sum(c.isdigit() for c in text) / max(len(text), 1) for text in completions]


def length_reward(completions: list[str], **_: Any) -> list[float]:
    """A second reward, of another size: shorter is better."""
    return [-0.1 * len(text) for text in completions]


def trainer(directory: str | os.PathLike[str], *, rewards: Any = digit_share, start: Any = None, **changes: Any) -> Any:
    """A RoVRTrainer on the tiny model: 16 responses of at most 12 tokens a step; `changes` are fields of RoVRConfig.

    Arguments of the trainer itself (peft_config, eval_dataset, reward_transform, callbacks, train_dataset, kind, tokens) are
    told apart by name.
    """
    from rovrl.integrations.trl import RoVRConfig, RoVRTrainer

    names = ("peft_config", "eval_dataset", "reward_transform", "callbacks", "train_dataset", "rollout_func", "tools")
    own = {name: changes.pop(name) for name in names if name in changes}
    own.setdefault("train_dataset", addition())
    kind, tokens = changes.pop("kind", RoVRTrainer), changes.pop("tokens", None) or tokenizer()
    settings = {
        "per_device_train_batch_size": 16,
        "num_generations": 16,
        "max_completion_length": 12,
        "steps_per_generation": 2,
        "max_steps": 2,
        "learning_rate": 1e-3,
        "lr_scheduler_type": "constant",
        "logging_steps": 1,
        "report_to": "none",
        "save_strategy": "no",
        "gradient_checkpointing": False,
        "disable_tqdm": True,
    }
    args = RoVRConfig(str(directory), **(settings | changes))
    return kind(model() if start is None else start, rewards, args, processing_class=tokens, **own)


def leave(trainer: Any) -> None:
    """Ends the process of a rank once every rank is done, without tearing its group down.

    torch 2.13's ~ProcessGroupGloo joins a thread that may wait for the interpreter's lock, which the one who joins holds: now
    and then a finished rank hangs, or aborts, on its way out.
    """
    trainer.accelerator.wait_for_everyone()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
