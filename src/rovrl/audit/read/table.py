"""Generic Parquet, JSON lines and CSV: one row per response, columns by name; and which files of a folder may be tables."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.read.cells import Batch
from rovrl.audit.read.notes import Notes
from rovrl.audit.read.rows import Chunk, Columns, Reader
from rovrl.audit.read.tables import BATCH_ROWS, READ, TEXT_ROWS, batches, columns_of
from rovrl.audit.read.texts import ending
from rovrl.errors import RovrlError

SKIPPED_FOLDERS = re.compile(r"checkpoints?|checkpoint[-_]\d+|wandb|runs|audit|\..*", re.IGNORECASE)
"""Names of folders that hold no rollouts: weights, logs, pages, what is hidden."""
MOST_EXACT = 2**53
"""From here on not every whole number is one of the floating-point numbers, and steps would run into one another."""
FLAGGED = ("step", "group", "response", "reward", "why", "prompt", "completion", "file", "row")
"""The columns of flagged responses as an audit writes them (`show.export`)."""
NOT_ROLLOUTS = {"audit.json", "trainer_state.json", "config.json", "settings.json", "package.json", "metrics.jsonl"}
TOKENS = ("log_ratios", "logp_new", "logp_old", "mask")


@dataclass
class TableReader(Reader):
    """Rows of one response each; without a group column, groups are runs of equal prompts."""

    place: dict[str, str | None] = field(default_factory=dict)
    """Which column of the file that is being read holds what."""
    name: ClassVar[str] = "table"
    title: ClassVar[str] = "a table of rollouts"
    takes: ClassVar[tuple[str, ...]] = tuple(Columns.USUAL)
    logs_advantages: ClassVar[bool] = True
    any_name: ClassVar[bool] = True

    def files(self, path: Path) -> list[Path]:
        """Every readable table below `path`, in natural order of names, without those that an audit has written there."""
        found = [path] if path.is_file() else [file for file in table_files(path) if not _is_flagged(file)]
        usable = [file for file in found if self._places(file)["reward"] is not None]
        if usable:
            self.by_runs = self._places(usable[0])["group"] is None
        return usable

    def batches(self, file: Path, want: frozenset[str], notes: Notes) -> Iterator[Batch]:
        """Only the columns that are wanted, in the order of `Columns`."""
        place = self.place = self._places(file, notes)
        if place["reward"] is None:
            return
        if place["group"] is None and place["prompt"] is None:
            raise RovrlError(
                f"{file} has neither a group nor a prompt column, so responses cannot be compared within groups; its "
                f"columns are {listed(columns_of(file, notes))}: name one with --group-column or --prompt-column"
            )
        needed = {"step", "group" if place["group"] else "prompt", *(want & {"advantage", "prompt"})}
        needed |= {"reward"} if want - {"prompt"} else set()
        needed |= {"prompt", "completion"} if "text" in want else set()
        needed |= set(TOKENS) if "tokens" in want else set()
        names = [name for what, name in place.items() if what in needed and name]
        yield from batches(file, names, notes, TEXT_ROWS if want & {"text", "prompt"} else BATCH_ROWS)

    def chunk(self, batch: Batch, file: Path, want: frozenset[str], notes: Notes) -> Chunk:
        """See `Reader`."""
        here = {what: name if name in batch.names else None for what, name in self.place.items()}
        label, prompt, completion = here["group"] or here["prompt"], here["prompt"], here["completion"]
        return Chunk(
            row=batch.rows,
            reward=batch.numbers(here["reward"] or ""),
            step=steps(batch, here["step"], notes),
            group=batch.labels(label) if label else None,
            advantage=batch.numbers(here["advantage"]) if "advantage" in want and here["advantage"] else None,
            prompt=batch.texts(prompt) if want & {"text", "prompt"} and prompt else None,
            completion=batch.texts(completion) if "text" in want and completion else None,
            log_ratios=log_ratios(batch, here) if "tokens" in want else None,
        )

    def holds(self, what: str, file: Path) -> bool:
        """See `Reader`; token log-ratios, or both log-probabilities to take them from."""
        place = self._places(file)
        if what == "tokens":
            return bool(place["log_ratios"] or (place["logp_new"] and place["logp_old"]))
        return place["prompt"] is not None

    def _places(self, file: Path, notes: Notes | None = None) -> dict[str, str | None]:
        present = columns_of(file, notes or Notes())
        return {what: self.columns.find(what, present) for what in Columns.USUAL}


def table_files(path: Path, suffixes: tuple[str, ...] = tuple(READ)) -> list[Path]:
    """Readable tables in `path` and up to two folders below, without checkpoints and logs, in natural order."""
    found: list[Path] = []
    for depth in ("*", "*/*", "*/*/*"):
        for file in path.glob(depth):
            if is_skipped(file.relative_to(path).parent) or file.name in NOT_ROLLOUTS:
                continue
            if ending(file) in suffixes and file.is_file():
                found.append(file)
    return sorted(reached_once(found, path), key=natural)


def is_skipped(folder: Path) -> bool:
    """Whether a folder, named from where the search began, lies in one that holds no rollouts."""
    return any(SKIPPED_FOLDERS.fullmatch(part) for part in folder.parts)


def reached_once(places: list[Path], root: Path) -> list[Path]:
    """Each place below `root` once, however many links lead to it, and none behind a link to `root` or to what lies above."""
    real = lru_cache(maxsize=None)(os.path.realpath)
    base = Path(real(root))
    true = {p: Path(real(p.parent)) / p.name if not p.is_symlink() else Path(real(p)) for p in places}
    linked = {p: true[p] != base / p.relative_to(root) for p in places}
    seen: set[Path] = set()
    kept: list[Path] = []
    for place in sorted(places, key=lambda p: (linked[p], natural(p))):
        steps = [p for p in (place, *place.parents) if len(p.parts) > len(root.parts)] if linked[place] else []
        if true[place] not in seen and not any(base.is_relative_to(real(step)) for step in steps):
            kept.append(place)
        seen.add(true[place])
    return kept


def matching(folder: Path, pattern: str) -> list[Path]:
    """What lies in `folder` under names like `pattern`, in any case, in natural order; empty if it is no folder."""
    every = folder.iterdir() if folder.is_dir() else ()
    return sorted((place for place in every if fnmatchcase(place.name.lower(), pattern)), key=natural)


def natural(file: Path) -> tuple[tuple[int, int, str], ...]:
    """A sort key that puts 2.jsonl before 10.jsonl."""
    parts: list[tuple[int, int, str]] = []
    for letter in str(file):
        if letter.isdecimal() and letter.isascii():
            if parts and parts[-1][0] == 0:
                parts[-1] = (0, parts[-1][1] * 10 + int(letter), "")
            else:
                parts.append((0, int(letter), ""))
        else:
            parts.append((1, 0, letter))
    return tuple(parts)


def steps(batch: Batch, name: str | None, notes: Notes, otherwise: int = 0) -> NDArray[np.int64]:
    """The steps of the rows as whole numbers; `otherwise` where there is none, which is noted if the dump names steps."""
    if name is None or name not in batch.names:
        return np.full(len(batch), otherwise, dtype=np.int64)
    whole = batch.integers(name)
    if whole is not None:
        return whole
    values = batch.numbers(name)
    known = np.isfinite(values)
    usable = known & (np.abs(values) < MOST_EXACT)
    found = np.where(usable, values, otherwise).astype(np.int64)
    instead = "were taken as those of " + ("the step in the name of their file" if otherwise else "step 0")
    notes.count("no_step", f"{{n}} rows have no number in the column of steps and {instead}", int((~known).sum()))
    large = (
        f"{{n}} rows have a step that is too large to be exact (as a floating-point number, from 2^53 on) and {instead}"
    )
    notes.count("steps_too_large", large, int((known & ~usable).sum()))
    cut = "{n} rows have a step that is not whole: what stands after the point was cut off"
    notes.count("steps_cut", cut, int((usable & (found != values)).sum()))
    return found


def log_ratios(batch: Batch, place: dict[str, str | None]) -> list[NDArray[np.float64] | None] | None:
    """Token log-ratios of the rows: their own column, or the difference of the two log-probabilities; masked tokens go."""
    if place["log_ratios"]:
        rows = batch.lists(place["log_ratios"])
    elif place["logp_new"] and place["logp_old"]:
        both = zip(batch.lists(place["logp_new"]), batch.lists(place["logp_old"]), strict=True)
        rows = [
            new - old if new is not None and old is not None and len(new) == len(old) else None for new, old in both
        ]
    else:
        return None
    if place["mask"]:
        masks = batch.lists(place["mask"])
        rows = [
            row[mask > 0] if row is not None and mask is not None and len(mask) == len(row) else row
            for row, mask in zip(rows, masks, strict=True)
        ]
    return rows


def _is_flagged(file: Path) -> bool:
    """Whether these are the flagged responses of an earlier audit."""
    return ending(file) in (".csv", ".parquet") and tuple(columns_of(file, Notes())) == FLAGGED


def listed(names: list[str]) -> str:
    """The first names of columns, for a sentence."""
    return ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
