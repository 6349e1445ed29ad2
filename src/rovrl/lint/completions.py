"""Prompts, completions and every other column out of saved rollouts or any table, in groups; rewards are not needed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rovrl.audit.describe.columns import named
from rovrl.audit.read.cells import ArrowBatch, Batch, DictBatch
from rovrl.audit.read.lines import ending
from rovrl.audit.read.rows import Columns, Notes
from rovrl.audit.read.table import table_files
from rovrl.audit.read.tables import READ, batches, refusal
from rovrl.errors import RovrlError

COMPLETION = ("completion", "output", "response", *Columns.USUAL["completion"])


@dataclass
class Completions:
    """Rows of one response each; `group` is equal for the responses to one prompt."""

    prompt: list[str] = field(default_factory=list)
    completion: list[str] = field(default_factory=list)
    group: list[str] = field(default_factory=list)
    columns: dict[str, list[Any]] = field(default_factory=dict)
    """Every other column, as reward functions are given them."""

    def __len__(self) -> int:
        return len(self.completion)

    def take(self, rows: list[int]) -> Completions:
        """Only these rows, in this order."""
        pick = lambda values: [values[k] for k in rows]  # noqa: E731
        columns = {name: pick(values) for name, values in self.columns.items()}
        return Completions(pick(self.prompt), pick(self.completion), pick(self.group), columns)


def read_completions(path: Path, limit: int) -> Completions:
    """The first `limit` responses of the tables at `path`, whole groups; a RovrlError if there are none."""
    if not path.exists():
        raise RovrlError(f"{path} does not exist: name a run directory, a folder of rollouts, or one file")
    if path.is_file() and ending(path) not in READ:
        raise RovrlError(refusal(path))
    found, seen, notes = Completions(), set(), Notes()
    for file in [path] if path.is_file() else table_files(path):
        for batch in batches(file, None, notes, size=1024):
            _add(batch, found, seen)
            if len(found) >= limit:
                return _whole_groups(found, limit)
    if not len(found):
        told = "; ".join(note.sentence for note in notes.all()[:2])
        raise RovrlError(
            f"no completions in {path}{': ' + told if told else ''}; looked for a column {', '.join(COMPLETION[:4])}"
        )
    return found


def _add(batch: Batch, found: Completions, seen: set[object]) -> None:
    completion, prompt = named(batch.names, COMPLETION), named(batch.names, Columns.USUAL["prompt"])
    if completion is None:
        return
    texts = batch.texts(completion).to_pylist()
    prompts = batch.texts(prompt).to_pylist() if prompt else [None] * len(texts)
    label = named(batch.names, Columns.USUAL["group"])
    labels = batch.texts(label).to_pylist() if label else prompts
    if label is not None and label.lower() == "uid":  # verl's: prompt, session, output
        labels = [None if name is None else name.rsplit("_", 2)[0] for name in labels]
    others = {name: _values(batch, name) for name in batch.names if name not in (completion, prompt)}
    for k, text in enumerate(texts):
        if text is None:
            continue
        name = (labels[k], others["response"][k]) if "update" in others and "response" in others else None
        if name is not None and name in seen:  # records hold a response once per update
            continue
        seen.add(name)
        before = len(found)
        found.prompt.append(prompts[k] or "")
        found.completion.append(text)
        found.group.append(str(labels[k]))
        for column in {*others, *found.columns}:
            values = found.columns.setdefault(column, [None] * before)
            values.append(others[column][k] if column in others else None)


def _values(batch: Batch, name: str) -> list[Any]:
    if isinstance(batch, ArrowBatch):
        return batch.batch.column(name).to_pylist()
    return [value.get(name) for value in batch.values] if isinstance(batch, DictBatch) else []


def _whole_groups(found: Completions, limit: int) -> Completions:
    """Without the last group if it may go on beyond what was read; one group larger than the limit is cut."""
    last = found.group[limit - 1]
    edge = (
        limit if found.group[limit - 1 :].count(last) == 1 else next(k for k, g in enumerate(found.group) if g == last)
    )
    return found.take(list(range(edge or limit)))
