"""Finished cells of the fault matrix on the disk, so that it can be stopped and goes on; never cells of another code."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import rovrl
from rovrl.errors import RovrlError
from rovrl.output.files import append_lines, read_lines

Key = tuple[str | int, ...]


class Kept:
    """The finished cells of one file: a line for the code and the seeds, then one for each cell."""

    def __init__(self, path: Path, seeds: range) -> None:
        self.path = path
        head = {"code": code(), "seeds": [seeds[0], len(seeds)]}
        remedy = "delete the file and start again"
        try:
            lines = read_lines(path, remedy, lambda line: "code" in line or {"cell", "row"} <= set(line))
            if not lines:
                path.unlink(missing_ok=True)
                append_lines(path, [head])
        except OSError as error:
            raise RovrlError(
                f"cannot keep finished cells in {path} ({error.strerror or error}): name another file with --keep"
            ) from None
        if lines and lines[0] != head:
            raise RovrlError(
                f"{path} holds cells of other seeds or of another code: delete it, or name another with --keep"
            )
        self.rows: dict[Key, dict[str, Any]] = {tuple(line["cell"]): line["row"] for line in lines[1:]}

    def add(self, cell: Key, row: dict[str, Any]) -> None:
        """Keeps a finished cell."""
        self.rows[cell] = row
        append_lines(self.path, [{"cell": list(cell), "row": row}])

    def remove(self) -> None:
        """Deletes the file: the tables are made."""
        self.path.unlink(missing_ok=True)


def code() -> str:
    """A fingerprint of everything that decides about a cell: the source of both packages."""
    digest = hashlib.sha256()
    for package in (Path(rovrl.__file__).parent, Path(__file__).parents[1]):
        for path in sorted(package.rglob("*.py")):
            digest.update(f"{path.relative_to(package.parent).as_posix()}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]
