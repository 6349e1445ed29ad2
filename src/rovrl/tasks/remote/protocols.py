"""How reward servers are asked and how they answer: ours, vLLM's, SGLang's, OpenRLHF's.

Each protocol makes the JSON body for some conversations and finds their scores in the JSON answer. A KeyError, TypeError,
ValueError or IndexError while reading means that the answer has another shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rovrl.errors import RovrlError, require
from rovrl.tasks.chat import Chat

Render = Callable[[Chat], str]
"""a whole conversation as the text the reward model reads"""


@dataclass(frozen=True)
class Protocol:
    """Makes the `body` for conversations (and their texts, if there is a template); finds the raw `scores` in the answer."""

    path: str
    body: Callable[[Sequence[Chat], Sequence[str] | None], dict[str, Any]]
    scores: Callable[[Any, Sequence[Any]], Sequence[object]]
    needs_template: bool = False
    batched: bool = True  # without a template; with one, always


def _ours(chats: Sequence[Chat], texts: Sequence[str] | None) -> dict[str, Any]:
    return {"conversations": list(chats)}


def _our_scores(answer: Any, asked: Sequence[Any]) -> Sequence[object]:
    return answer["scores"]


def _classify(chats: Sequence[Chat], texts: Sequence[str] | None) -> dict[str, Any]:
    asked = {"messages": chats[0]} if texts is None else {"input": list(texts)}
    return {**asked, "use_activation": False}  # the logit: a softmax over one class is always 1


def _class_scores(answer: Any, asked: Sequence[Any]) -> Sequence[object]:
    found = [entry["probs"] for entry in _by_index(answer["data"])]
    if any(len(values) != 1 for values in found):
        raise ValueError(f"{len(found[0])} classes: a reward needs exactly one")
    return [values[0] for values in found]


def _pairs(chats: Sequence[Chat], texts: Sequence[str] | None) -> dict[str, Any]:
    questions = ["\n".join(message["content"] for message in chat[:-1]) for chat in chats]
    return {"text_1": questions, "text_2": [chat[-1]["content"] for chat in chats], "use_activation": False}


def _pair_scores(answer: Any, asked: Sequence[Any]) -> Sequence[object]:
    return [entry["score"] for entry in _by_index(answer["data"])]


def _texts(chats: Sequence[Chat], texts: Sequence[str] | None) -> dict[str, Any]:
    return {"text": list(texts or ())}


def _embeddings(answer: Any, asked: Sequence[Any]) -> Sequence[object]:
    entries = [answer] if isinstance(answer, dict) else answer
    if any(len(entry["embedding"]) != 1 for entry in entries):
        raise ValueError("several numbers for one text: start the server with a one-label reward model")
    return [entry["embedding"][0] for entry in entries]


def _queries(chats: Sequence[Chat], texts: Sequence[str] | None) -> dict[str, Any]:
    return {"query": list(texts or ()), "prompts": [chat[-2]["content"] if len(chat) > 1 else "" for chat in chats]}


def _rewards(answer: Any, asked: Sequence[Any]) -> Sequence[object]:
    return answer["rewards"]


def _by_index(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    ordered = sorted(entries, key=lambda entry: entry["index"])
    if [entry["index"] for entry in ordered] != list(range(len(ordered))):
        raise ValueError("indices that are not 0, 1, 2, ...")
    return ordered


PROTOCOLS: dict[str, Protocol] = {
    "rovrl": Protocol("/score", _ours, _our_scores),
    "vllm": Protocol("/classify", _classify, _class_scores, batched=False),
    "vllm-score": Protocol("/score", _pairs, _pair_scores),
    "sglang": Protocol("/classify", _texts, _embeddings, needs_template=True),
    "openrlhf": Protocol("/get_reward", _queries, _rewards, needs_template=True),
}


def renderer(template: str | Render) -> Render:
    """The function that renders a conversation: `template` itself, or the chat template of the tokenizer of that name.

    The text has no leading begin-of-text token: the servers add it.
    """
    if callable(template):
        return template
    transformers = require("transformers", extra="tasks")
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(template)
    except (OSError, ValueError) as error:
        raise RovrlError(
            f"the tokenizer {template!r} could not be loaded ({str(error).splitlines()[0]}): template must be the reward "
            "model's name or directory, or a function from a conversation to its text"
        ) from None
    if not tokenizer.chat_template:
        raise RovrlError(
            f"the tokenizer {template!r} has no chat template: give a function from a conversation to its text"
        )
    begin = tokenizer.bos_token or ""
    return lambda chat: tokenizer.apply_chat_template(chat, tokenize=False).removeprefix(begin)
