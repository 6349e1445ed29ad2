"""The weights from which a sweep's runs start, kept beside them: a warm-up differs from one kind of processor to another.

OUT/starts holds one directory per warmed-up model. A sweep that goes on elsewhere starts from these weights, so that its runs
can be compared with those that are there.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from rovrl_paper.lab.embedded import starting_model
from rovrl_paper.lab.job import Job
from rovrl_paper.lab.models.cache import MANIFEST, cached, intact

LARGEST = 8 << 20
"""Bytes: larger models come from packages, where they are the same for everyone."""


def kept_start(job: Job, out: Path) -> Path:
    """The model that a sweep's jobs of this world start from: the one kept in OUT, else the cache's, which is kept now."""
    for kept in (out / "starts").glob("*/"):
        if intact(kept):
            cached(kept.name, lambda draft, kept=kept: _copy(kept, draft))
    place = starting_model(job)
    kept = out / "starts" / place.name
    if not kept.exists() and sum(file.stat().st_size for file in place.iterdir()) <= LARGEST:
        shutil.copytree(place, kept)
    return kept if intact(kept) else place


def _copy(source: Path, target: Path) -> None:
    for file in source.iterdir():
        if file.name != MANIFEST:
            shutil.copyfile(file, target / file.name)
