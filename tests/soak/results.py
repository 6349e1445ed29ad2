"""Finished pieces, kept in a file as they come: an interrupted run goes on with the next."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from soak.parts import Found, Part

ROOT = Path(__file__).parents[2]


class Results:
    """What was found by part and piece; what was found with other sources does not count."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self._known: dict[str, Found] = dict(json.loads(line) for line in lines if line.endswith("]"))

    def of_piece(self, name: str, part: Part, piece: int, count: int) -> Found | None:
        """What one piece found; None if it has not been run."""
        return self._known.get(_key(name, part, piece, count))

    def add(self, name: str, part: Part, piece: int, count: int, found: Found) -> None:
        """Remembers a piece, also if the run is interrupted afterwards."""
        key = _key(name, part, piece, count)
        self._known[key] = found
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write("\n" + json.dumps([key, found]))  # a line that was cut short ends here

    def of(self, name: str, part: Part, scale: float) -> Found | None:
        """The sums over all pieces; None while one is missing."""
        found = self.finished(name, part, scale)
        return _summed(found) if len(found) == len(part.pieces(scale)) else None

    def so_far(self, name: str, part: Part, scale: float) -> Found | None:
        """The sums over the pieces that have been run; None if none has."""
        found = self.finished(name, part, scale)
        return _summed(found) if found else None

    def finished(self, name: str, part: Part, scale: float) -> list[Found]:
        """What the pieces found that have been run."""
        found = [self.of_piece(name, part, piece, count) for piece, count in enumerate(part.pieces(scale))]
        return [numbers for numbers in found if numbers is not None]


def _summed(pieces: list[Found]) -> Found:
    names = dict.fromkeys(name for numbers in pieces for name in numbers)
    return {name: sum(numbers.get(name, 0) for numbers in pieces) for name in names}


def _key(name: str, part: Part, piece: int, count: int) -> str:
    return f"{name} {piece} of {count}, sources {_digest(part)}"


def _digest(part: Part) -> str:
    places = [ROOT / source for source in part.sources]
    files = [file for place in places for file in (sorted(place.rglob("*.py")) if place.is_dir() else [place])]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
