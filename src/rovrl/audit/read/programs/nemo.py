"""NeMo-RL's `train_data_step{N}.jsonl` in its log directory: one sample per line, without group ids. By the schema of its code.

The responses of a group follow one another; they share the tokens before the first one that is trained on. `val_data_step*`
is validation and is not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from rovrl.audit.read.rows import Chunk, Notes, Reader
from rovrl.audit.read.table import natural
from rovrl.audit.read.tables import batches, columns_of

NAME = re.compile(r"train_data_step(\d{1,15})\.jsonl(\.gz)?", re.IGNORECASE)


@dataclass
class NemoReader(Reader):
    """Samples as NeMo-RL's GRPO logs them."""

    by_runs: bool = True
    name: ClassVar[str] = "nemo"
    title: ClassVar[str] = "NeMo-RL training data"

    def files(self, path: Path) -> list[Path]:
        """The step files at `path` or in it, in the order of the steps."""
        every = [path] if path.is_file() else path.iterdir() if path.is_dir() else []
        found = sorted((file for file in every if NAME.fullmatch(file.name) and file.is_file()), key=natural)
        return found if any("prompt_key" in columns_of(file, Notes()) for file in found[:3]) else []

    def chunks(self, file: Path, want: frozenset[str], notes: Notes) -> Iterator[Chunk]:
        """See `Reader`."""
        named = NAME.fullmatch(file.name)
        step = int(named[1]) if named else 0
        for batch in batches(file, None, notes):
            if "prompt_key" not in batch.names:
                notes.tell("damaged_file", f"{file} holds no samples of NeMo-RL and was left out")
                return
            texts = bool(want & {"text", "prompt"})
            yield Chunk(
                row=batch.rows,
                reward=batch.numbers("reward"),
                step=np.full(len(batch), step, dtype=np.int64),
                group=batch.texts("prompt_key"),
                prompt=batch.texts("prompt") if texts else None,
                completion=batch.texts("completion") if texts else None,
            )
