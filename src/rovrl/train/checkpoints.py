"""What survives of a run: whole checkpoints, and the sentence when the disk gives out."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from rovrl.errors import RovrlError
from rovrl.output.files import read_lines, write_lines

COMPLETE = "complete"
"""A file in a checkpoint, written last: a checkpoint without it was cut off by a kill and does not count."""


def last_checkpoint(directory: Path) -> Path | None:
    """The newest whole checkpoint in a directory of checkpoints."""
    whole = [mark.parent for mark in directory.glob(f"checkpoint-*/{COMPLETE}")]
    return max(whole, key=step_of, default=None)


def step_of(checkpoint: Path) -> int:
    """The optimizer step after which a checkpoint was written."""
    return int(checkpoint.name.rpartition("-")[2])


def keep_lines_up_to(path: Path, step: int) -> None:
    """Drops the rows after `step` from a file of JSON lines: a resumed run will write them again."""
    write_lines(path, (row for row in read_lines(path) if row["step"] <= step))


def storage_sentence(error: OSError, directory: Path) -> RovrlError:
    """What to say when a write fails in the middle of a run."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    free = shutil.disk_usage(directory).free >> 20 if directory.exists() else 0
    reason = f"the disk is full ({free} MiB left)" if full else error.strerror or os.strerror(errno.EIO)
    return RovrlError(
        f"the run in {directory} stopped: {reason}; its finished steps are kept, "
        "fix that and repeat the command with --resume"
    )
