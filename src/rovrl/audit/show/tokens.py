"""The texts of a response's tokens. Records hold log-ratios and the whole text; a tokenizer beside the run cuts it again."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

from rovrl.audit.read.table import natural
from rovrl.audit.read.tables import check_regular

Cut = Callable[[str], list[str]]
PLACES = ("tokenizer.json", "checkpoint-*/tokenizer.json", "checkpoints/checkpoint-*/tokenizer.json")
END = "<end>"
LONGEST = 32
"""Characters of one token that are shown."""
MOST_BYTES = 2**28
"""Of a tokenizer; those of half a million tokens have less than a tenth of it."""


class TokenTexts:
    """Called with a text and a number of tokens: the tokens' texts, or None where they cannot be known.

    A text that is cut again need not give the tokens that were sampled; it is believed only if it gives exactly as many, or one
    fewer: the end of the text is a token too.
    """

    def __init__(self, ways: list[Cut]) -> None:
        self.ways = ways

    @classmethod
    def beside(cls, path: Path) -> TokenTexts:
        """With the newest tokenizer in the run's directory, if the package `tokenizers` is there to read it."""
        folder = path if path.is_dir() else path.parent
        homes = (folder, folder.parent) if folder.name in ("records", "completions") else (folder,)
        found = [file for home in homes for place in PLACES for file in sorted(home.glob(place), key=natural)]
        return cls([*([_with(found[-1])] if found else []), list])

    def __call__(self, text: str | None, count: int) -> list[str] | None:
        """The `count` tokens of `text`."""
        if text is None or count == 0:
            return None
        for way in self.ways:
            pieces = way(text)
            if len(pieces) in (count, count - 1):
                return [piece[:LONGEST] for piece in pieces] + [END] * (count - len(pieces))
        return None


def _with(file: Path) -> Cut:
    try:
        check_regular(file)
        if file.stat().st_size > MOST_BYTES:
            return lambda text: []
        tokenizer = importlib.import_module("tokenizers").Tokenizer.from_file(str(file))
    except Exception:
        return lambda text: []
    return lambda text: [text[a:z] for a, z in tokenizer.encode(text, add_special_tokens=False).offsets]
