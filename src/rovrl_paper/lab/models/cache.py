"""Directories in the user's cache that are built once, appear whole or not at all, and are checked by their hashes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from rovrl.errors import RovrlError, require

MANIFEST = "manifest.json"


def cached(name: str, build: Callable[[Path], None], cache: Path | None = None) -> Path:
    """The directory `name` of the cache, filled by `build(directory)` where there is no intact copy.

    A copy whose files differ from its manifest is built again. Two processes may build at the same time: the first to
    finish wins.
    """
    place = (cache or cache_directory()) / name
    if intact(place):
        return place
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".building-", dir=place.parent))
    except OSError as error:
        raise RovrlError(
            f"nothing can be stored in the cache {place.parent} ({error.strerror}); "
            "set ROVRL_CACHE to a directory that can be written"
        ) from None
    try:
        build(draft)
        listed = {file.name: _digest(file) for file in sorted(draft.iterdir())}
        (draft / MANIFEST).write_text(json.dumps(listed, indent=1))
        return _publish(draft, place)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def cache_directory() -> Path:
    """`$ROVRL_CACHE`, or the user's cache directory for rovrl."""
    chosen = os.environ.get("ROVRL_CACHE")
    return Path(chosen) if chosen else Path(require("platformdirs", extra="train").user_cache_dir("rovrl"))


def intact(place: Path) -> bool:
    """Whether `place` holds a manifest and exactly the bytes that the manifest lists."""
    try:
        listed = json.loads((place / MANIFEST).read_text())
        return bool(listed) and all(_digest(place / name) == digest for name, digest in listed.items())
    except (OSError, ValueError, AttributeError):
        return False


def _publish(draft: Path, place: Path) -> Path:
    """Moves a finished draft to its place; a broken copy that stands there is removed, an intact one is kept."""
    for _ in range(2):
        try:
            os.rename(draft, place)  # atomic on one file system, and fails if the place is taken
        except OSError:
            if intact(place):
                return place
            shutil.rmtree(place, ignore_errors=True)
        else:
            return place
    raise RovrlError(f"the directory {place} is in the way and cannot be removed: remove it and start again")


def _digest(file: Path) -> str:
    with open(file, "rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
