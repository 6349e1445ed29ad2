"""Directories with one writer at a time: two would destroy each other's work without a word."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from pathlib import Path

from rovrl.errors import RovrlError

try:
    import fcntl
except ImportError:  # Windows: no lock, as before there was one
    fcntl = None

LOCK_NAME = ".rovrl.lock"


class DirectoryLock:
    """Holds `directory` for this process until `release`, its end or its death; a RovrlError names whoever holds it.

    The kernel's own lock: it needs no clean-up after a kill, and forked copies do not inherit it. Inside one process the same
    directory may be held several times. A file system without locks is used without one.
    """

    def __init__(self, directory: Path, purpose: str):
        self._path = str(Path(directory).resolve() / LOCK_NAME)
        self._pid: int | None = None
        if fcntl is None:
            return
        with _holding:
            if self._path not in _held:
                _held[self._path] = [_locked(self._path, directory, purpose), 0]
            _held[self._path][1] += 1
        self._pid = os.getpid()

    def release(self) -> None:
        """Lets go; a second call, and one in a forked copy, does nothing."""
        if self._pid != os.getpid():
            return
        self._pid = None
        with _holding:
            _held[self._path][1] -= 1
            if not _held[self._path][1]:
                os.close(_held.pop(self._path)[0])

    def __enter__(self) -> DirectoryLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __del__(self) -> None:
        try:
            self.release()
        except Exception:  # the interpreter is ending, and with it the lock
            return


_held: dict[str, list[int]] = {}
"""lock file -> [descriptor, how often it is held]; a second descriptor would end the lock when it is closed"""
_holding = threading.RLock()


def _locked(path: str, directory: Path, purpose: str) -> int:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # pyright: ignore[reportOptionalMemberAccess]
    except (BlockingIOError, PermissionError):
        holder = os.pread(file, 1000, 0).decode("utf-8", "replace").strip() or "another process"
        os.close(file)
        raise RovrlError(
            f"{directory} is being written by {holder}: wait for it or stop it, or choose another directory"
        ) from None
    except OSError:
        return file
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:200] if sys.argv else ""
    name = f"process {os.getpid()} on {socket.gethostname()} ({purpose}, since {since}: {command})"
    os.truncate(file, 0)
    os.pwrite(file, name.encode("utf-8", "replace"), 0)
    return file
