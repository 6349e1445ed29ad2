"""Responses from a model: how they are drawn, by transformers everywhere, by vLLM where it is installed with a GPU."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch

from rovrl.errors import RovrlError, require
from rovrl.tasks.chat import Chat, as_prompt

MAX_NEW_TOKENS = {"math": 8192, "govreport": 1024, "toolcall": 1024, "own": 1024}
"""The paper's response limits (`app:exp_protocol`); it states none for GovReport: its 1,024 are ours, as those of `own`."""


@dataclass(frozen=True)
class Decoding:
    """How responses are drawn. Temperature 0 is greedy."""

    samples: int = 1  # k responses per problem and run
    runs: int = 1
    temperature: float = 0.0
    top_p: float = 1.0
    max_new_tokens: int | None = None  # None: the task's limit
    seed: int = 0
    chunk: int = 8  # problems generated together; part of the settings, because batches decide the random numbers

    def __post_init__(self) -> None:
        for name in ("samples", "runs", "chunk"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ValueError(f"temperature must be 0 (greedy) or a positive number, not {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1, not {self.top_p}")
        if self.max_new_tokens is not None and self.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens must be at least 1, not {self.max_new_tokens}")
        if self.temperature == 0 and self.samples * self.runs > 1:
            raise ValueError(
                "greedy decoding gives the same response every time: set a temperature for more samples or runs"
            )

    def limit(self, task: str) -> int:
        """The response limit for a task."""
        return self.max_new_tokens or MAX_NEW_TOKENS[task]

    def seed_of(self, suite: str, run: int, unit: int) -> int:
        """The seed of one chunk of problems in one run: the same for every model, whatever was done before it."""
        words = f"{self.seed}/{suite}/{run}/{unit}".encode()
        return int.from_bytes(hashlib.blake2b(words, digest_size=4).digest(), "big")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


class Response(NamedTuple):
    """A response's text, its length in tokens, and whether it ended by itself."""

    text: str
    tokens: int
    finished: bool


class Engine(Protocol):
    """Draws one response to each prompt."""

    def generate(self, prompts: Sequence[Chat | str], decoding: Decoding, limit: int, seed: int) -> list[Response]:
        """Responses in the order of the prompts; the same seed gives the same responses."""
        ...


class TransformersEngine:
    """`model.generate`, `batch` prompts at a time, padded on the left."""

    def __init__(self, model: str, *, batch: int = 16, device: str = "auto"):
        self.batch = batch
        self.tokenizer, self.model = load_causal(model, device)

    def generate(self, prompts: Sequence[Chat | str], decoding: Decoding, limit: int, seed: int) -> list[Response]:
        """Responses in the order of the prompts; the random state of the caller is left as it was."""
        texts = [as_prompt(self.tokenizer, prompt) for prompt in prompts]
        plain = all(isinstance(prompt, str) for prompt in prompts)  # a chat template writes the special tokens itself
        devices = [self.model.device] if self.model.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices), torch.no_grad():
            torch.manual_seed(seed)
            starts = range(0, len(texts), self.batch)
            parts = [texts[start : start + self.batch] for start in starts]
            return [response for part in parts for response in self._batch(part, plain, decoding, limit)]

    def _batch(self, texts: list[str], plain: bool, decoding: Decoding, limit: int) -> list[Response]:
        words = self.tokenizer(texts, padding=True, return_tensors="pt", add_special_tokens=plain).to(self.model.device)
        ends = _end_tokens(self.tokenizer, self.model)
        sampling: dict[str, Any] = {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
        if decoding.temperature > 0:
            sampling = {"do_sample": True, "temperature": decoding.temperature, "top_p": decoding.top_p, "top_k": 0}
        output = self.model.generate(
            input_ids=words["input_ids"],
            attention_mask=words["attention_mask"],
            max_new_tokens=limit,
            pad_token_id=self.tokenizer.pad_token_id,
            eos_token_id=ends,
            **sampling,
        )
        return [self._response(row, ends) for row in output[:, words["input_ids"].shape[1] :].tolist()]

    def _response(self, tokens: list[int], ends: list[int]) -> Response:
        stop = next((place for place, token in enumerate(tokens) if token in ends), None)
        length = len(tokens) if stop is None else stop + 1
        text = self.tokenizer.decode(tokens[:length], skip_special_tokens=True)
        return Response(text, length, stop is not None)


class VllmEngine:
    """vLLM's offline engine; every request has its own seed, so batches do not decide the random numbers."""

    def __init__(self, model: str, *, batch: int = 0, device: str = "auto"):
        try:
            vllm = importlib.import_module("vllm")
        except ImportError as error:
            raise RovrlError(
                f"--engine vllm needs vLLM ({error}): pip install vllm, or use --engine transformers"
            ) from None
        self._parameters = vllm.SamplingParams
        try:
            self.model = vllm.LLM(model=model, tensor_parallel_size=max(torch.cuda.device_count(), 1))
        except (OSError, ValueError) as error:
            raise _missing(model, error) from None
        self.tokenizer = self.model.get_tokenizer()

    def generate(self, prompts: Sequence[Chat | str], decoding: Decoding, limit: int, seed: int) -> list[Response]:
        """Responses in the order of the prompts."""
        parameters = [
            self._parameters(
                temperature=decoding.temperature, top_p=decoding.top_p, max_tokens=limit, seed=seed + place
            )
            for place in range(len(prompts))
        ]
        texts = [as_prompt(self.tokenizer, prompt) for prompt in prompts]
        outputs = [request.outputs[0] for request in self.model.generate(texts, parameters, use_tqdm=False)]
        return [Response(o.text, len(o.token_ids), o.finish_reason == "stop") for o in outputs]


ENGINES: dict[str, Callable[..., Engine]] = {"transformers": TransformersEngine, "vllm": VllmEngine}


def choose(name: str) -> Callable[..., Engine]:
    """The engine called `name`; "auto" is vLLM if it is installed and a GPU is there, else transformers."""
    if name == "auto":
        name = "vllm" if importlib.util.find_spec("vllm") and torch.cuda.is_available() else "transformers"
    return ENGINES[name]


def refuse_missing(model: str) -> None:
    """A RovrlError at once for a path that does not exist, for which the Hub would be asked again and again.

    "runs/none" could be a name on the Hub; it is a path if the directory `runs` is here, or is the one runs are written to.
    """
    first, *rest = Path(model).parts or (".",)
    is_path = model.startswith((".", "/", "~")) or len(rest) > 1 or (rest and (first == "runs" or Path(first).is_dir()))
    if is_path and not Path(model).exists():
        raise RovrlError(f"there is no model at {model}: give a directory that holds one, or its name on the Hub")


def load_causal(model: str, device: str) -> tuple[Any, Any]:
    """Tokenizer (padding on the left) and model, ready to generate."""
    transformers = require("transformers", extra="tasks")
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(model, padding_side="left")
        loaded = transformers.AutoModelForCausalLM.from_pretrained(model, dtype="auto")
    except (OSError, ValueError) as error:
        raise _missing(model, error) from None
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    where = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    return tokenizer, loaded.to(where).eval()


def _end_tokens(tokenizer: Any, model: Any) -> list[int]:
    configured = model.generation_config.eos_token_id
    ends = configured if isinstance(configured, list) else [configured]
    return sorted({token for token in [*ends, tokenizer.eos_token_id] if token is not None})


def _missing(model: str, error: Exception) -> RovrlError:
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return RovrlError(
        f"the model {model!r} could not be loaded ({reason}): give a directory that holds it, or its Hub name with a network"
    )
