"""A learned reward: a sequence-classification model in this process, or a served one over HTTP. A failed score is None, not 0.

    from rovrl.tasks.reward_model import HttpReward
    RoVRTrainer(reward_funcs=[HttpReward("http://localhost:8100/score")], ...)

By import path (recipes, verl), `learned_reward` and `compute_score` take their server from the environment: ROVRL_REWARD_URL,
and if it is not our own server ROVRL_REWARD_PROTOCOL and ROVRL_REWARD_TEMPLATE; ROVRL_REWARD_TOKEN is its bearer token.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch

from rovrl.errors import RovrlError, require
from rovrl.tasks.chat import Chat, conversation
from rovrl.tasks.remote import HttpReward
from rovrl.tasks.remote.transport import number

URL_VARIABLE = "ROVRL_REWARD_URL"

__all__ = ["ClassifierReward", "HttpReward", "compute_score", "learned_reward", "served"]


class ClassifierReward:
    """Rewards by any model that `AutoModelForSequenceClassification` loads with one label, in this process."""

    def __init__(
        self,
        model: str,
        *,
        batch: int = 16,
        max_tokens: int = 4096,
        device: str = "auto",
        trust_remote_code: bool = False,
    ):
        transformers = require("transformers", extra="train")
        self.__name__ = "reward_model"  # what TRL logs it under
        self.batch, self.max_tokens = batch, max_tokens
        self.device = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device)
        try:
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(model, trust_remote_code=trust_remote_code)
            self.model = transformers.AutoModelForSequenceClassification.from_pretrained(
                model, trust_remote_code=trust_remote_code
            )
        except (OSError, ValueError) as error:
            raise RovrlError(
                f"the reward model {model!r} could not be loaded ({str(error).splitlines()[0]}): give a directory that holds "
                "it, or connect to the Hub once; a model with its own code needs trust_remote_code=True, or its own server"
            ) from None
        if self.model.config.num_labels != 1:
            raise RovrlError(
                f"the reward model {model!r} has {self.model.config.num_labels} labels: a reward needs exactly one"
            )
        if self.tokenizer.pad_token_id is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        if self.model.config.pad_token_id is None:
            self.model.config.pad_token_id = self.tokenizer.pad_token_id  # where the model looks for the last token
        self.model.to(self.device).eval()

    def __call__(
        self, prompts: Sequence[object] = (), completions: Sequence[object] = (), **columns: Any
    ) -> list[float | None]:
        """The model's score of each conversation, in batches of similar length; None where it is not a finite number."""
        texts = [self._text(conversation(p, c)) for p, c in zip(prompts, completions, strict=True)]
        rewards: list[float | None] = [None] * len(texts)
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        for start in range(0, len(order), self.batch):
            places = order[start : start + self.batch]
            words = self.tokenizer(
                [texts[place] for place in places],
                padding=True,
                truncation=True,
                max_length=self.max_tokens,
                return_tensors="pt",
            ).to(self.device)
            with torch.no_grad():
                logits = self.model(input_ids=words["input_ids"], attention_mask=words["attention_mask"]).logits
            for place, value in zip(places, logits[:, 0].tolist(), strict=True):
                rewards[place] = number(value)
        return rewards

    def _text(self, chat: Chat) -> str:
        if self.tokenizer.chat_template:
            return self.tokenizer.apply_chat_template(chat, tokenize=False)
        return "\n".join(message["content"] for message in chat)


@lru_cache(maxsize=8)
def served(url: str, **settings: Any) -> HttpReward:
    """The client of the server at `url`, one per process and settings."""
    return HttpReward(url, **settings)


def _configured(url: str | None) -> HttpReward:
    url = url or os.environ.get(URL_VARIABLE)
    if not url:
        raise RovrlError(
            f"no reward server is set: export {URL_VARIABLE}=http://HOST:PORT/score (docs/tasks.md says how to start one)"
        )
    settings = {name: os.environ.get(f"ROVRL_REWARD_{name.upper()}") for name in ("protocol", "template", "token")}
    return served(url, **{name: value for name, value in settings.items() if value})


def learned_reward(
    prompts: Sequence[object] = (), completions: Sequence[object] = (), **columns: Any
) -> list[float | None]:
    """The rewards of a batch from the server in `ROVRL_REWARD_URL`, as TRL calls it."""
    return _configured(None)(prompts, completions, **columns)


async def compute_score(
    data_source: object,
    solution_str: str,
    ground_truth: object,
    extra_info: Any = None,
    *,
    url: str | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """The reward of one response from the server, as verl awaits it; a failed score is NaN, which verl's batches can carry.

    verl asks for one response at a time, many at once: those that are wanted together go to the server in one batch. What the
    calls took is returned beside the score, and verl logs it.
    """
    return await _configured(url).one_told((extra_info or {}).get("question", ""), solution_str)
