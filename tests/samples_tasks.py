"""Small stand-ins for the tasks' data and models, written for the tests."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForSequenceClassification,
)

import tiny

REPORT = (
    "Congress asked for a review of spending. Farms received less rain. The Coast Guard purchased three vessels in 2019. "
    "Each vessel cost $40 million. Hospitals reported fewer patients. Schools were closed for a month. "
    "The report recommends an audit. Agencies agreed with the recommendation."
)


def report(sections: int) -> str:
    """A report of about 15 words a section, each section different."""
    return " ".join(
        f"Section {n} was audited in {1990 + n % 30} and its budget of {n * 37 % 1000} million dollars was spent on time."
        for n in range(sections)
    )


def small_bart(directory: Path) -> str:
    """A random BART with a word-piece vocabulary of letters and a few words, saved in `directory`."""
    letters = [chr(code) for code in range(33, 127)]
    words = sorted(set(re.findall(r"\w+", REPORT)))
    vocabulary = {
        token: i
        for i, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", *letters, *(f"##{c}" for c in letters), *words])
    }
    vocabulary = {token: i for i, token in enumerate(dict.fromkeys(vocabulary))}
    pieces = Tokenizer(models.WordPiece(vocabulary, unk_token="<unk>", max_input_chars_per_word=10_000))
    pieces.pre_tokenizer = pre_tokenizers.Whitespace()
    pieces.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=pieces, bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>"
    )
    config = BartConfig(
        vocab_size=len(vocabulary), d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=1100,
        bos_token_id=0, pad_token_id=1, eos_token_id=2, decoder_start_token_id=2, forced_eos_token_id=2,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        BartForConditionalGeneration(config).save_pretrained(directory)
    fast.save_pretrained(directory)
    return str(directory)


def classifier(directory: Path, labels: int = 1) -> str:
    """A random classification model over characters, saved in `directory`."""
    tokens = tiny.tokenizer()
    config = Qwen3Config(
        vocab_size=len(tokens), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16, num_labels=labels, pad_token_id=tokens.pad_token_id,
        eos_token_id=tokens.eos_token_id, bos_token_id=None,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        Qwen3ForSequenceClassification(config).save_pretrained(directory)
    tokens.save_pretrained(directory)
    return str(directory)


def write_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    """`rows` as JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


PROBLEMS = [{"id": f"p{n}", "problem": f"{n}+{n}=?", "answer": str(2 * n)} for n in range(6)]
TURN = '<think> I look. </think>\n<tool_call>\n{"name": "search", "parameters": {"query": "tea"}}\n</tool_call>'
TURNS = [{"id": f"t{n}", "system": "Use tools.", "user": f"find tea {n}", "ground_truth": TURN} for n in range(4)]
REPORTS = [{"id": f"r{n}", "report": REPORT, "summary": "Ships were bought. An audit is needed."} for n in range(4)]
