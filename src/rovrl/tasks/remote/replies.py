"""Replies kept on disk: what a judge said once is not paid for again, whatever is killed in between."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from rovrl.errors import RovrlError
from rovrl.tasks.forks import aware_of_forks

_PATIENCE = 30.0  # seconds for other processes that write


class Replies:
    """Texts by key in an SQLite file, which several processes may share. Used in the background loop only."""

    def __init__(self, path: Path):
        self.path = path
        self._left_behind: list[sqlite3.Connection | None] = []
        self._connection: sqlite3.Connection | None = None
        aware_of_forks(self)

    def start_afresh(self) -> None:
        """In a forked copy: a connection of its own."""
        self._left_behind.append(self._connection)
        self._connection = None

    def find(self, keys: Sequence[str]) -> dict[str, str]:
        """The texts of those keys that are there."""
        found: dict[str, str] = {}
        for start in range(0, len(keys), 500):  # SQLite limits the places in one statement
            some = list(keys[start : start + 500])
            marks = ",".join("?" * len(some))
            found.update(self._open().execute(f"SELECT key, text FROM replies WHERE key IN ({marks})", some).fetchall())
        return found

    def keep(self, key: str, text: str) -> None:
        """Adds one; a disk that is full costs money later, not the run now."""
        with suppress(sqlite3.OperationalError):
            self._open().execute("INSERT OR REPLACE INTO replies VALUES (?, ?)", (key, text))

    def close(self) -> None:
        """Closes the file; the next use opens it again."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                opened = sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None)
                opened.execute("PRAGMA journal_mode=WAL")
                opened.execute("CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, text TEXT NOT NULL)")
            except (OSError, sqlite3.Error) as error:
                raise RovrlError(
                    f"the judge's cache {self.path} cannot be used ({error}): give another file, or remove this one"
                ) from None
            self._connection = opened
        return self._connection
