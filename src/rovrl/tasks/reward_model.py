"""A learned reward: a sequence-classification model in this process, or a served one over HTTP. A failed score is None, not 0.

    from rovrl.tasks.reward_model import HttpReward
    RoVRTrainer(reward_funcs=[HttpReward("http://localhost:8100/score")], ...)

By import path (recipes, verl), `learned_reward` and `compute_score` take their server from the environment: ROVRL_REWARD_URL.
"""

from __future__ import annotations

import http.client
import json
import math
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import torch

from rovrl.errors import RovrlError, require
from rovrl.forks import aware_of_forks
from rovrl.tasks.chat import Chat, conversation

URL_VARIABLE = "ROVRL_REWARD_URL"


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
                rewards[place] = _number(value)
        return rewards

    def _text(self, chat: Chat) -> str:
        if self.tokenizer.chat_template:
            return self.tokenizer.apply_chat_template(chat, tokenize=False)
        return "\n".join(message["content"] for message in chat)


class HttpReward:
    """Rewards from a server: POST {"conversations": [[{role, content}, ..], ..]} answered by {"scores": [number or null, ..]}.

    `requests` batches are in flight at once. A batch that fails (no connection, a time-out, a status of 429 or 5xx, an answer
    of another shape) is tried `retries` more times with growing pauses; then its scores are None, and `failures` counts them.
    No score at all for `patience` seconds is a RovrlError: training on would be training on nothing.
    """

    def __init__(
        self,
        url: str,
        *,
        batch: int = 32,
        requests: int = 4,
        timeout: float = 60.0,
        retries: int = 3,
        pause: float = 0.5,
        patience: float = 600.0,
        headers: dict[str, str] | None = None,
        sleep: Callable[[float], object] = time.sleep,
    ):
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"url must start with http:// or https://, not {url!r}")
        self.__name__ = "reward_server"  # what TRL logs it under
        self.url, self.batch, self.timeout = url, batch, timeout
        self.retries, self.pause, self.headers, self.sleep = retries, pause, headers or {}, sleep
        self.patience = patience
        self._silent_since: float | None = None
        self.failures = 0
        self.last_error = ""
        self.requests = requests
        self.start_afresh()
        aware_of_forks(self)

    def start_afresh(self) -> None:
        """Senders of its own, in a forked copy too: its parent's threads are not there."""
        self._senders = ThreadPoolExecutor(self.requests, thread_name_prefix="reward")

    def __call__(
        self, prompts: Sequence[object] = (), completions: Sequence[object] = (), **columns: Any
    ) -> list[float | None]:
        """The server's score of each conversation, None where it failed."""
        chats = [conversation(p, c) for p, c in zip(prompts, completions, strict=True)]
        parts = [chats[start : start + self.batch] for start in range(0, len(chats), self.batch)]
        answers = list(self._senders.map(self._ask, parts))
        if any(answer is not None for answer in answers):
            self._silent_since = None
        elif parts:
            self._bear_silence()
        return [
            score
            for answer, part in zip(answers, parts, strict=True)
            for score in (answer if answer is not None else [None] * len(part))
        ]

    def _bear_silence(self) -> None:
        now = time.monotonic()
        self._silent_since = now if self._silent_since is None else self._silent_since
        if now - self._silent_since >= self.patience:
            raise RovrlError(
                f"the reward server {self.url} has given no score for {self.patience:.0f} s ({self.last_error}): start it "
                "again, then resume the run from its last checkpoint"
            )

    def _ask(self, chats: list[Chat]) -> list[float | None] | None:
        body = json.dumps({"conversations": chats}).encode()
        request = urllib.request.Request(self.url, body, {"Content-Type": "application/json", **self.headers})
        for attempt in range(self.retries + 1):
            if attempt:
                self.sleep(self.pause * 2 ** (attempt - 1))
            try:
                with urllib.request.urlopen(request, timeout=self.timeout) as response:
                    scores = json.load(response)["scores"]
                if len(scores) != len(chats):
                    raise ValueError(f"{len(scores)} scores for {len(chats)} conversations")  # noqa: TRY301
                return [_number(score) for score in scores]
            except urllib.error.HTTPError as error:
                self.last_error = f"status {error.code}"
                if error.code != 429 and error.code < 500:
                    raise RovrlError(
                        f"the reward server {self.url} refuses the request (status {error.code}): check its path and "
                        "what it expects"
                    ) from None
            except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
                self.last_error = f"{type(error).__name__}: {error}"
        self.failures += len(chats)
        return None


@lru_cache(maxsize=8)
def served(url: str) -> HttpReward:
    """The client of the server at `url`, one per process."""
    return HttpReward(url)


def _configured(url: str | None) -> HttpReward:
    url = url or os.environ.get(URL_VARIABLE)
    if not url:
        raise RovrlError(
            f"no reward server is set: export {URL_VARIABLE}=http://HOST:PORT/score (docs/tasks.md says how to start one)"
        )
    return served(url)


def learned_reward(
    prompts: Sequence[object] = (), completions: Sequence[object] = (), **columns: Any
) -> list[float | None]:
    """The rewards of a batch from the server in `ROVRL_REWARD_URL`, as TRL calls it."""
    return _configured(None)(prompts, completions)


def compute_score(
    data_source: object,
    solution_str: str,
    ground_truth: object,
    extra_info: Any = None,
    *,
    url: str | None = None,
    **kwargs: Any,
) -> float:
    """The reward of one response from the server, as verl calls it; a failed score is NaN, which verl's batches can carry."""
    prompt = (extra_info or {}).get("question", "")
    reward = _configured(url)([prompt], [solution_str])[0]
    return math.nan if reward is None else reward


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None
