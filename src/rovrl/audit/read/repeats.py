"""What runs of equal prompts leave open: where one group ends, which batches were logged twice, which rows are evaluation."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrow import index_array
from rovrl.audit.read.programs.trainer_state import evaluations
from rovrl.audit.read.rollouts import Rollouts, merged
from rovrl.errors import RovrlError

_ODD = np.uint64(0x9E3779B97F4A7C15)


def split_runs(rollouts: Rollouts, group_size: int | None) -> Rollouts:
    """Runs of equal prompts cut into groups of `group_size`; None: the length that most responses are in.

    A run of k·G rows is k groups: the data set held the prompt k times in a row. A run of another length stays one group.
    """
    if not rollouts.groups:
        return rollouts
    sizes = rollouts.size
    told = group_size is not None
    group_size = group_size or _usual_size(sizes)
    notes = rollouts.notes
    times = np.where(sizes % group_size == 0, sizes // group_size, 1)
    odd = int((sizes % group_size != 0).sum())
    if not told:
        notes.tell(
            "group_size_inferred",
            f"the dump names no groups: runs of equal prompts were taken as groups, of size {group_size} as most of them "
            "have; give --group-size if the run used another",
        )
    if (times > 1).any():
        notes.count(
            "runs_split",
            f"{{n}} runs of equal prompts are longer and were cut into groups of {group_size}",
            int((times > 1).sum()),
        )
    notes.count(
        "odd_groups", f"{{n}} runs of equal prompts are not a multiple of {group_size} and were left whole", odd
    )
    pieces = np.repeat(np.where(times > 1, group_size, sizes), times)
    source = np.repeat(np.arange(len(sizes)), times)
    return replace(
        rollouts,
        start=np.concatenate([[0], np.cumsum(pieces)]),
        step=rollouts.step[source],
        label=rollouts.label.take(index_array(source)),
    )


def join_interleaved(rollouts: Rollouts, group_size: int | None) -> Rollouts:
    """Rows of one step with the same prompt as one group, where prompts come in turn, by one or in parts of the given size."""
    usual = np.median(rollouts.size) if rollouts.groups else 0
    in_parts = group_size is not None and 1 < usual < group_size
    if not rollouts.groups or not (usual == 1 or in_parts):
        return rollouts
    order, sizes, first = merged(rollouts.step, rollouts.label, rollouts.size)
    if order is None or (np.median(sizes) != group_size if in_parts else np.median(sizes) <= 1):
        return rollouts
    rollouts.notes.tell(
        "interleaved", "the prompts of a step come in turn: rows of one step with the same prompt were taken as a group"
    )
    pick = lambda column: None if column is None else column[order]  # noqa: E731
    columns = ("reward", "file", "row", "advantage", "planted", "digest")
    return replace(
        rollouts,
        **{name: pick(getattr(rollouts, name)) for name in columns},
        start=np.concatenate([[0], np.cumsum(sizes)]),
        step=rollouts.step[first],
        label=rollouts.label.take(index_array(first)),
    )


def drop_repeats(rollouts: Rollouts) -> Rollouts:
    """Every batch once: a file whose groups are, one by one, those of an earlier file was logged again.

    Whole files are compared: single groups that come again are what a policy does that has collapsed, and stay.
    """
    digest = _group_digest(rollouts)
    if digest is None or not len(digest):
        return rollouts
    file = rollouts.file[rollouts.start[:-1]]
    seen: set[bytes] = set()
    again = []
    for number in np.unique(file).tolist():
        batch = digest[file == number].tobytes()
        if batch in seen:
            again.append(number)
        seen.add(batch)
    keep = ~np.isin(file, again)
    rollouts.notes.count(
        "logged_twice",
        "{n} groups were logged again, in files that repeat an earlier file group by group, and were counted once",
        int((~keep).sum()),
    )
    return rollouts.select(keep)


def drop_evaluation(rollouts: Rollouts, path: Path, group_size: int | None) -> Rollouts:
    """Without the rows of evaluations, as far as they can be recognised: TRL logs them into the same files, unmarked.

    Two signs: a list of prompts that, in its order, comes again in other files with other responses, while no other list does
    (an evaluation set is fixed; a second epoch without shuffling repeats many lists, or the first one); a file whose groups all
    have another size than the training groups.
    """
    if not rollouts.groups:
        return rollouts
    first_row = rollouts.start[:-1]
    file = rollouts.file[first_row]
    prompts = rollouts.label.to_pylist()
    usual = group_size or _usual_size(rollouts.size)
    lists: dict[int, tuple[str, ...]] = {}
    by_file: dict[int, list[int]] = defaultdict(list)
    for group, number in enumerate(file.tolist()):
        by_file[number].append(group)
    for number, groups in by_file.items():
        lists[number] = tuple(prompts[group] for group in groups)
    again = {names: count for names, count in Counter(lists.values()).items() if count > 1}
    repeated = {number for number, names in lists.items() if names in again}
    epochs = len(again) > 1 or lists[min(lists)] in again
    other_size = {n for n, groups in by_file.items() if all(rollouts.size[g] % usual for g in groups)}
    _tell(rollouts, path, repeated, other_size, epochs)
    found = (set() if epochs else repeated) | other_size
    return rollouts.select(~np.isin(file, sorted(found))) if found else rollouts


def _tell(rollouts: Rollouts, path: Path, repeated: set[int], other_size: set[int], epochs: bool) -> None:
    notes = rollouts.notes
    logged = evaluations(path if path.is_dir() else path.parent)
    if repeated and not epochs:
        notes.tell(
            "evaluation_rows",
            f"{len(repeated)} files hold the same prompts in the same order with other responses: taken as evaluation and "
            "left out; --keep-evaluation keeps them",
        )
    elif repeated:
        notes.tell(
            "evaluation_unclear",
            f"{len(repeated)} files repeat the prompts of other files: several epochs in the same order, or evaluation; none "
            "was left out",
        )
    if other_size:
        notes.tell(
            "evaluation_rows",
            f"{len(other_size)} files hold only groups of another size: taken as evaluation and left out; "
            "--keep-evaluation keeps them, --group-size names the training size",
        )
    if not repeated and not other_size:
        where = f": the run evaluated at steps {_short(logged)}" if logged else ""
        notes.tell(
            "evaluation_unclear",
            f"TRL logs evaluation rows into the same files, and no column tells them apart{where}; none were recognised here",
        )


def _group_digest(rollouts: Rollouts) -> NDArray[np.uint64] | None:
    if rollouts.digest is None:
        return None
    place = np.arange(len(rollouts.reward)) - np.repeat(rollouts.start[:-1], rollouts.size)
    mixed = (rollouts.digest ^ (rollouts.digest >> np.uint64(29))) * (np.uint64(2) * place.astype(np.uint64) + _ODD)
    return np.add.reduceat(mixed, rollouts.start[:-1])


def _usual_size(sizes: NDArray[np.int64]) -> int:
    """The size that most responses are in; of equals the smaller."""
    values, counts = np.unique(sizes, return_counts=True)
    several = values > 1
    if several.any():
        values, counts = values[several], counts[several]
    return int(values[np.argmax(values * counts)])


def _short(steps: list[int]) -> str:
    return ", ".join(map(str, steps[:5])) + (", ..." if len(steps) > 5 else "")


def check_group_size(group_size: int | None) -> None:
    """Refuses a group size below 2."""
    if group_size is not None and group_size < 2:
        raise RovrlError(
            f"--group-size must be at least 2, not {group_size}: a single response has nothing to compare with"
        )
