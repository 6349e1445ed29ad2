"""Prompts, completions and every other column out of saved rollouts or any table, in groups; rewards are not needed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rovrl.audit.describe.responses import named
from rovrl.audit.read.cells import Batch
from rovrl.audit.read.find import OWN_FILES, READERS, find_runs
from rovrl.audit.read.notes import Notes
from rovrl.audit.read.rows import Columns, Reader
from rovrl.audit.read.table import table_files
from rovrl.audit.read.tables import READ, batches, refusal
from rovrl.audit.read.texts import ending
from rovrl.errors import RovrlError
from rovrl.integrations.rewards import Completions

COMPLETION = ("completion", "output", "response", *Columns.USUAL["completion"])


def read_completions(path: Path, limit: int, notes: Notes) -> Completions:
    """The first `limit` responses at `path`, whole groups; a RovrlError if there are none. `notes`: what was left out.

    Of a dump that `rovrl audit` knows by its own files, what it counts as a response; else of any table with completions.
    """
    if not path.exists():
        raise RovrlError(f"{path} does not exist: name a run directory, a folder of rollouts, or one file")
    if path.is_file() and ending(path) not in READ:
        raise RovrlError(refusal(path))
    found, seen = Completions(), set()
    for batch in _responses(path, notes) or _tables(path, notes):
        _add(batch, found, seen)
        if len(found) >= limit:
            return _whole_groups(found, limit)
    if not len(found):
        told = "; ".join(note.sentence for note in notes.all()[:2])
        looked = ", ".join(dict.fromkeys(COMPLETION))
        raise RovrlError(f"no completions in {path}{': ' + told if told else ''}; looked for a column {looked}")
    return found


def joined(rows: Completions, data: Path) -> Completions:
    """The rows whose prompt is one of the training data in the file `data`, with its other columns, as a trainer gives them.

    A prompt of the data is looked for inside the prompt of the dump, around which a chat template may stand; the longest one
    found counts, and of a conversation its last message. RovrlError if no prompt is found.
    """
    from rovrl.train.settings import prompt_column, read_file

    table = prompt_column(read_file(data)["train"], str(data))
    known: dict[str, int] = {}
    for k, prompt in enumerate(table["prompt"]):
        text = prompt if isinstance(prompt, str) else prompt[-1]["content"]
        known.setdefault(text.strip(), k)
    longest_first = sorted(filter(None, known), key=len, reverse=True)

    @cache
    def row_of(asked: str) -> int | None:
        exact = known.get(asked.strip())
        return (
            known.get(next((text for text in longest_first if _stands_in(asked, text)), "")) if exact is None else exact
        )

    found = [(k, row) for k, asked in enumerate(rows.prompt) if (row := row_of(asked)) is not None]
    if not found:
        raise RovrlError(f"no prompt of the completions is one of {data}: is it the data of that run?")
    kept = rows.take([k for k, _ in found])
    columns = {name: table[name] for name in table.column_names if name != "prompt"}
    kept.columns |= {name: [values[row] for _, row in found] for name, values in columns.items()}
    return kept


def _stands_in(asked: str, text: str) -> bool:
    """Whether `text` is in `asked` as whole words: "problem 1" is not in "problem 12"."""
    return text in asked and re.search(rf"(?<!\w){re.escape(text)}(?!\w)", asked) is not None


@dataclass
class _Part:
    """Some rows of a file; for each that is a response its group and its texts, where the kind of the dump says them."""

    batch: Batch
    known: dict[int, tuple[str, str | None, str | None]] | None = None
    """row -> (group, prompt, completion)"""


def _responses(path: Path, notes: Notes) -> Iterator[_Part] | None:
    """The rows of the runs at `path`, of kinds that are known by their own files; None if there is no such run."""
    found = []
    for run in find_runs(path, "auto", Columns()):
        readers = (READERS[name]() for name in OWN_FILES)
        found += next(([(reader, file) for file in files] for reader in readers if (files := reader.files(run))), [])
    return (part for reader, file in found for part in _parts(reader, file, notes)) if found else None


def _parts(reader: Reader, file: Path, notes: Notes) -> Iterator[_Part]:
    """The rows of one file beside what its reader says of them: both come in the order of the file."""
    chunks, known, last = reader.chunks(file, frozenset({"text", "prompt"}), notes), {}, -1
    for batch in batches(file, None, Notes(), size=1024):
        while last < batch.rows[-1] and (chunk := next(chunks, None)) is not None:
            last = max(last, int(chunk.row[-1]) if len(chunk) else -1)
            texts = (column.to_pylist() for column in (chunk.group, chunk.prompt, chunk.completion))
            for row, step, label, prompt, text in zip(chunk.row.tolist(), chunk.step.tolist(), *texts, strict=True):
                known[row] = (f"{file.parent}/{step}/{label}", prompt, text)
        yield _Part(batch, {row: known.pop(row) for row in batch.rows.tolist() if row in known})


def _tables(path: Path, notes: Notes) -> Iterator[_Part]:
    for file in [path] if path.is_file() else table_files(path):
        for batch in batches(file, None, notes, size=1024):
            yield _Part(batch)


def _add(part: _Part, found: Completions, seen: set[object]) -> None:
    batch = part.batch
    completion, prompt = named(batch.names, COMPLETION), named(batch.names, Columns.USUAL["prompt"])
    known = part.known if part.known is not None else _by_columns(batch, completion, prompt)
    others = {name: list(batch.cells(name)) for name in batch.names if name not in (completion, prompt)}
    for k, row in enumerate(batch.rows.tolist()):
        group, asked, text = known.get(row, ("", None, None))
        if text is None:
            continue
        name = (group, others["response"][k]) if "update" in others and "response" in others else None
        if name is not None and name in seen:  # records hold a response once per update
            continue
        seen.add(name)
        before = len(found)
        found.prompt.append(asked or "")
        found.completion.append(text)
        found.group.append(group)
        for column in {*others, *found.columns}:
            values = found.columns.setdefault(column, [None] * before)
            values.append(others[column][k] if column in others else None)


def _by_columns(
    batch: Batch, completion: str | None, prompt: str | None
) -> dict[int, tuple[str, str | None, str | None]]:
    """row -> (group, prompt, completion), by the usual names of the columns."""
    if completion is None:
        return {}
    prompts = batch.texts(prompt).to_pylist() if prompt else [None] * len(batch)
    label = named(batch.names, Columns.USUAL["group"])
    labels = batch.texts(label).to_pylist() if label else prompts
    if label is not None and label.lower() == "uid":  # verl's: prompt, session, output
        labels = [None if name is None else name.rsplit("_", 2)[0] for name in labels]
    texts = batch.texts(completion).to_pylist()
    rows = zip(batch.rows.tolist(), labels, prompts, texts, strict=True)
    return {row: (str(name), asked, text) for row, name, asked, text in rows}


def _whole_groups(found: Completions, limit: int) -> Completions:
    """Without the last group if it may go on beyond what was read; one group larger than the limit is cut."""
    last = found.group[limit - 1]
    edge = (
        limit if found.group[limit - 1 :].count(last) == 1 else next(k for k, g in enumerate(found.group) if g == last)
    )
    return found.take(list(range(edge or limit)))
