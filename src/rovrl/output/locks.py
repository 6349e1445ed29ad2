"""Directories with one writer at a time: two would destroy each other's work without a word."""

from __future__ import annotations

import os
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from rovrl.errors import RovrlError

LOCK_NAME = ".rovrl.lock"
"""The file that is locked; it says who holds it, for the sentence that another writer gets."""


class DirectoryLock:
    """Holds `directory` for this process until `release`, its end or its death; a RovrlError names whoever holds it.

    The kernel's own lock (filelock): it needs no clean-up after a kill, and forked copies do not hold it. Inside one process
    the same directory may be held several times. A file system without locks is used without one.
    """

    def __init__(self, directory: Path, purpose: str):
        self._held = False
        file = Path(directory).resolve() / LOCK_NAME
        self._lock = FileLock(file, timeout=0, is_singleton=True, thread_local=False)
        try:
            self._lock.acquire()
        except Timeout:
            holder = "another process"
            with suppress(OSError):
                holder = file.read_text("utf-8", "replace")[:1000].strip() or holder
            raise RovrlError(
                f"{directory} is being written by {holder}: wait for it or stop it, or choose another directory"
            ) from None
        except (NotImplementedError, OSError):  # a file system without locks, or one that is read-only
            return
        self._held = True
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:200] if sys.argv else ""
        name = f"process {os.getpid()} on {socket.gethostname()} ({purpose}, since {since}: {command})"
        with suppress(OSError):
            file.write_text(name, "utf-8", "replace")

    def release(self) -> None:
        """Lets go; a second call, and one in a forked copy, does nothing."""
        if self._held:
            self._held = False
            self._lock.release()

    def __enter__(self) -> DirectoryLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
