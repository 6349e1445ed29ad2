"""The warmed-up model of the embedded job: trained once from the textbook, then taken from the user's cache."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import torch

from rovrl.errors import RovrlError, require
from rovrl.output.progress import Progress, silent
from rovrl_paper.lab.models.cache import cached
from rovrl_paper.tasks import arithmetic, characters

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

LEAST_STEPS = 20
"""The learning rate rises over a tenth of the steps; with fewer there would be none for that."""


class Textbook(Protocol):
    """A task with printed solutions to learn from, its problems all of one length; `rovrl_paper.tasks.arithmetic` is one."""

    def textbook_page(self, rng: random.Random, rows: int) -> list[tuple[str, str]]:
        """`rows` pairs of problem and printed solution."""
        ...

    def held_out(self) -> tuple[str, ...]:
        """The evaluation problems; none of them is ever printed on a page."""
        ...

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of texts."""
        ...

    def tokenizer(self) -> PreTrainedTokenizerFast:
        """The tokenizer with those ids."""
        ...


@dataclass(frozen=True)
class WarmUp:
    """The recipe of the warm-up; another recipe is another place in the cache."""

    hidden: int = 96
    layers: int = 2
    heads: int = 4
    steps: int = 400
    batch: int = 64
    learning_rate: float = 3e-3
    seed: int = 0

    def __post_init__(self) -> None:
        if self.steps < LEAST_STEPS:
            raise RovrlError(f"the warm-up needs at least {LEAST_STEPS} steps, not {self.steps}")

    def key(self, book: Textbook = arithmetic) -> str:
        """A short digest of the recipe, of the textbook and of the torch version, whose rounding it depends on."""
        sample = book.textbook_page(random.Random(0), 64)
        facts = [asdict(self), sample, book.held_out(), torch.__version__]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def warmed_up(
    recipe: WarmUp, cache: Path | None = None, progress: Progress = silent, book: Textbook = arithmetic
) -> Path:
    """The directory of the warmed-up model and tokenizer, built first where the cache has no intact copy.

    `progress(step, steps)` is called only while building.
    """

    def build(place: Path) -> None:
        _save(train(recipe, progress, book), place, book)

    return cached(f"warm-up-{recipe.key(book)}", build, cache)


def train(recipe: WarmUp, progress: Progress = silent, book: Textbook = arithmetic) -> Qwen3ForCausalLM:
    """A fresh model after `recipe.steps` pages of the textbook; the same recipe gives the same weights on one thread."""
    rng = random.Random(recipe.seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        model = fresh(recipe, book).train()
    optimizer = torch.optim.AdamW(model.parameters(), recipe.learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, recipe.learning_rate, total_steps=recipe.steps, pct_start=0.1
    )
    for step in range(recipe.steps):
        loss = _page_loss(model, book, book.textbook_page(rng, recipe.batch))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        progress(step + 1, recipe.steps)
    return model


def fresh(recipe: WarmUp, book: Textbook = arithmetic) -> Qwen3ForCausalLM:
    """The untrained model: Qwen3's architecture with 0.24 million parameters."""
    transformers = require("transformers", extra="train")
    tokens = book.tokenizer()
    return transformers.Qwen3ForCausalLM(
        transformers.Qwen3Config(
            vocab_size=len(tokens),
            hidden_size=recipe.hidden,
            intermediate_size=3 * recipe.hidden,
            num_hidden_layers=recipe.layers,
            num_attention_heads=recipe.heads,
            num_key_value_heads=recipe.heads,
            head_dim=recipe.hidden // recipe.heads,
            max_position_embeddings=128,
            pad_token_id=tokens.pad_token_id,
            eos_token_id=tokens.eos_token_id,
            bos_token_id=None,
            tie_word_embeddings=True,
        )
    )


def _page_loss(model: Qwen3ForCausalLM, book: Textbook, page: list[tuple[str, str]]) -> torch.Tensor:
    """Cross-entropy of the printed solutions and their end of text, given the problems."""
    ids = torch.tensor([[*row, characters.END] for row in book.encode([problem + text for problem, text in page])])
    first = len(page[0][0])
    logits = model(input_ids=ids[:, :-1]).logits[:, first - 1 :]
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, first:].flatten())


def _save(model: Qwen3ForCausalLM, place: Path, book: Textbook) -> None:
    require("transformers", extra="train").logging.disable_progress_bar()
    model.save_pretrained(place)
    book.tokenizer().save_pretrained(place)
