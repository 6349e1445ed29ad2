"""What runs of equal prompts leave open: where one group ends, which batches were logged twice, which rows are evaluation."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import index_array
from rovrl.audit.read.cells import decodable, plain
from rovrl.audit.read.completions import evaluations
from rovrl.audit.read.find import tell_shared
from rovrl.audit.read.notes import Notes
from rovrl.audit.read.rollouts import Rollouts
from rovrl.audit.read.rows import Reader
from rovrl.audit.read.tables import pa
from rovrl.errors import RovrlError

PROMPT_ROWS = 131_072
"""How many rows are looked at for prompts that differ within a group: wrong group ids show early."""


def check_group_size(group_size: int | None) -> None:
    """Refuses a group size below 2."""
    if group_size is not None and group_size < 2:
        raise RovrlError(
            f"--group-size must be at least 2, not {group_size}: a single response has nothing to compare with"
        )


def grouped(rollouts: Rollouts, reader: Reader, path: Path, group_size: int | None, keep_evaluation: bool) -> Rollouts:
    """The groups of a run, each once and without evaluation, as far as this kind of dump leaves that open."""
    if reader.by_runs:
        size = group_size or reader.group_size
        rollouts = split_runs(join_interleaved(rollouts, size), size)
    elif group_size is not None:
        rollouts.notes.tell("group_size_ignored", "the dump names its groups: --group-size was not needed and not used")
    if reader.any_name and not reader.by_runs:
        tell_shared(rollouts)
    if not reader.repeats:
        return rollouts
    rollouts = drop_repeats(rollouts)
    return rollouts if keep_evaluation else drop_evaluation(rollouts, path, group_size)


def split_runs(rollouts: Rollouts, group_size: int | None) -> Rollouts:
    """Runs of equal prompts cut into groups of `group_size`; None: the length that most responses are in.

    A run of k·G rows is k groups: the data set held the prompt k times in a row. A run of another length stays one group.
    """
    if not rollouts.groups:
        return rollouts
    sizes = rollouts.size
    notes = rollouts.notes
    if group_size is None:
        group_size = _usual_size(sizes)
        notes.tell(
            "group_size_inferred",
            f"the dump names no groups: runs of equal prompts were taken as groups, of size {group_size} as most of them "
            "have; give --group-size if the run used another",
        )
    odd = sizes % group_size != 0
    times = np.where(odd, 1, sizes // group_size)
    longer = f"{{n}} runs of equal prompts are longer and were cut into groups of {group_size}"
    notes.count("runs_split", longer, int((times > 1).sum()))
    left = f"{{n}} runs of equal prompts are not a multiple of {group_size} and were left whole"
    notes.count("odd_groups", left, int(odd.sum()))
    pieces = np.repeat(np.where(times > 1, group_size, sizes), times)
    return rollouts.arranged(pieces, np.repeat(np.arange(len(sizes)), times))


def join_interleaved(rollouts: Rollouts, group_size: int | None) -> Rollouts:
    """Rows of one step with the same prompt as one group, where prompts come in turn, by one or in parts of the given size."""
    usual = np.median(rollouts.size) if rollouts.groups else 0
    in_parts = group_size is not None and 1 < usual < group_size
    if not (usual == 1 or in_parts):
        return rollouts
    whole = rollouts.merged()
    size = np.median(whole.size)
    if whole is rollouts or (size != group_size if in_parts else size <= 1):
        return rollouts
    said = "the prompts of a step come in turn: rows of one step with the same prompt were taken as a group"
    rollouts.notes.tell("interleaved", said)
    return whole


def drop_repeats(rollouts: Rollouts) -> Rollouts:
    """Every batch once: a file whose groups are, one by one, those of an earlier file was logged again.

    Whole files are compared: single groups that come again are what a policy does that has collapsed, and stay.
    """
    if rollouts.digest is None:
        return rollouts
    held: dict[int, list[bytes]] = defaultdict(list)
    for number, (first, end) in zip(_file_of_groups(rollouts), pairwise(rollouts.start.tolist()), strict=True):
        held[number].append(rollouts.digest[first:end].tobytes())
    seen: set[tuple[bytes, ...]] = set()
    again = set()
    for number, groups in sorted(held.items()):
        if tuple(groups) in seen:
            again.add(number)
        seen.add(tuple(groups))
    keep = ~np.isin(_file_of_groups(rollouts), sorted(again))
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
    file, prompts = _file_of_groups(rollouts), rollouts.label.to_pylist()
    usual = group_size or _usual_size(rollouts.size)
    by_file: dict[int, list[int]] = defaultdict(list)
    for group, number in enumerate(file):
        by_file[number].append(group)
    lists = {number: tuple(prompts[group] for group in groups) for number, groups in by_file.items()}
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
        steps = ", ".join(map(str, logged[:5])) + (", ..." if len(logged) > 5 else "")
        where = f": the run evaluated at steps {steps}" if logged else ""
        notes.tell(
            "evaluation_unclear",
            f"TRL logs evaluation rows into the same files, and no column tells them apart{where}; none were recognised here",
        )


def mixed_prompts(reader: Reader, files: list[Path]) -> tuple[int, int]:
    """(groups with different prompts, groups looked at) among the first rows; (0, 0) where prompts define the groups."""
    if reader.by_runs or reader.repeats:
        return 0, 0
    found: set[tuple[int, str, int]] = set()
    left = PROMPT_ROWS
    for file in files:
        if left <= 0:
            break
        if not reader.holds("prompt", file):
            return 0, 0
        for chunk in reader.chunks(file, frozenset({"prompt"}), Notes()):
            if chunk.prompt is None or chunk.group is None:
                return 0, 0
            names, columns = (
                ["step", "group", "prompt"],
                [index_array(chunk.step), plain(decodable(chunk.group)), chunk.prompt],
            )
            different = pa.Table.from_arrays(columns, names=names).group_by(names).aggregate([])
            step, group, prompt = (different.column(name).to_pylist() for name in names)
            rows = zip(step, group, map(hash, prompt), strict=True)  # hashes, since prompts may be long
            found.update((when, str(label), asked) for when, label, asked in rows if label is not None)
            left -= len(chunk)
            if left <= 0:
                break
    prompts = Counter((step, group) for step, group, _ in found)
    return sum(count > 1 for count in prompts.values()), len(prompts)


def _file_of_groups(rollouts: Rollouts) -> list[int]:
    """The number of the file in which each group begins."""
    return rollouts.file[rollouts.start[:-1]].tolist()


def _usual_size(sizes: NDArray[np.int64]) -> int:
    """The size that most responses are in; of equals the smaller."""
    values, counts = np.unique(sizes, return_counts=True)
    several = values > 1
    if several.any():
        values, counts = values[several], counts[several]
    return int(values[np.argmax(values * counts)])
