"""A model, a tokenizer and a dataset small enough for the trainer's whole way to take seconds; nothing is downloaded."""

from pathlib import Path

import torch

CHARACTERS = "0123456789+-*=? .:abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ\n#"
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def make(directory: Path) -> Path:
    """`directory` with model, tokenizer, train.parquet (64 sums) and val.parquet (4 of them)."""
    directory.mkdir(parents=True, exist_ok=True)
    vocabulary = _tokenizer(directory)
    _model(directory, vocabulary)
    _data(directory)
    return directory


def _tokenizer(directory: Path) -> int:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = ["<pad>", "<eos>", "<unk>", "<|im_start|>", "<|im_end|>"]
    vocabulary = {token: i for i, token in enumerate([*special, *CHARACTERS])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    core.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="<pad>",
        eos_token="<eos>",
        unk_token="<unk>",
        additional_special_tokens=special[3:],
    )
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(directory)
    return len(vocabulary)


def _model(directory: Path, vocabulary: int) -> None:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=512,
        eos_token_id=1,
        pad_token_id=0,
        bos_token_id=None,
        tie_word_embeddings=False,
    )
    Qwen3ForCausalLM(config).save_pretrained(directory)


def _data(directory: Path) -> None:
    import pandas as pd

    rows = [
        {
            "data_source": "harness/sums",
            "prompt": [{"role": "user", "content": f"{a}+{b}=?"}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": str(a + b)},
            "extra_info": {"index": 8 * a + b},
        }
        for a in range(8)
        for b in range(8)
    ]
    pd.DataFrame(rows).to_parquet(directory / "train.parquet")
    pd.DataFrame(rows[:4]).to_parquet(directory / "val.parquet")
