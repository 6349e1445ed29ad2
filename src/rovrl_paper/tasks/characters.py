"""Text as one token per character, for the tiny models of the embedded job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

SPECIAL = ("<pad>", "<eos>", "<unk>")
END = SPECIAL.index("<eos>")


def encode(texts: Sequence[str], characters: str) -> list[list[int]]:
    """Token ids of texts, character by character: the tokenizer's own ids without its overhead."""
    ids = {character: len(SPECIAL) + i for i, character in enumerate(characters)}
    return [[ids[character] for character in text] for text in texts]


def tokenizer(characters: str) -> PreTrainedTokenizerFast:
    """A tokenizer of one token per character, padded on the left."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: i for i, word in enumerate((*SPECIAL, *characters))}
    split = Tokenizer(models.WordLevel(vocabulary, unk_token=SPECIAL[2]))
    split.pre_tokenizer = pre_tokenizers.Split("", "isolated")  # pyright: ignore[reportAttributeAccessIssue]
    split.decoder = decoders.Fuse()  # pyright: ignore[reportAttributeAccessIssue]
    pad, eos, unk = SPECIAL
    return PreTrainedTokenizerFast(
        tokenizer_object=split, pad_token=pad, eos_token=eos, unk_token=unk, padding_side="left"
    )
