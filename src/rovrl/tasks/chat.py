"""Conversations and texts: what trainers pass to rewards, and what models continue."""

from __future__ import annotations

from typing import Any

Chat = list[dict[str, str]]


def as_text(completion: object) -> str:
    """The text of a completion: a string, or the last message of a conversation as TRL passes it; anything else is empty.

    A message may be in parts, of which those with a text count. Lone surrogates, which no tokenizer takes, become "?".
    """
    if isinstance(completion, str):
        return completion.encode("utf-8", "replace").decode()
    if isinstance(completion, list) and completion:
        return as_text(completion[-1])
    if isinstance(completion, dict):
        content = completion.get("content")
        return _joined(content) if isinstance(content, list) else as_text(content)
    return ""


def _joined(parts: list[Any]) -> str:
    return "".join(as_text(part if isinstance(part, str) else part.get("text")) for part in parts if part)


def conversation(prompt: object, completion: object) -> Chat:
    """The prompt's messages (a plain prompt is one user message) followed by the assistant's completion."""
    asked: Chat = (
        [{"role": m["role"], "content": as_text(m)} for m in prompt]
        if isinstance(prompt, list)
        else [{"role": "user", "content": as_text(prompt)}]
    )
    return [*asked, {"role": "assistant", "content": as_text(completion)}]


def as_prompt(tokenizer: Any, chat: Chat | str) -> str:
    """The text the model continues: by its chat template, or without one the messages' texts, each on its own.

    A text is continued as it stands, as trainers do with a prompt that is not a conversation.
    """
    if isinstance(chat, str):
        return chat
    if getattr(tokenizer, "chat_template", None):
        return tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    return "\n\n".join(message["content"] for message in chat) + "\n\n"
