"""One wrong formula: where it is planted, and which tests should see it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mutant:
    """`fragment` of `file` becomes `replacement`; one of `tests` should then fail.

    `file` lies below src/rovrl, or below src where it begins with rovrl_paper.
    """

    file: str
    fragment: str
    replacement: str
    tests: tuple[str, ...]
    why: str = ""
    """Why no test can see it, where that is so."""

    @property
    def name(self) -> str:
        """One line that names it."""
        return " ".join(f"{self.file}: {self.fragment}  ->  {self.replacement}".split())

    def path(self, source: Path) -> Path:
        """Its file below `source`, which holds both packages."""
        return source / self.file if self.file.startswith("rovrl_paper/") else source / "rovrl" / self.file

    def planted(self, source: str) -> str:
        """The source with the mutant in it; refused unless the fragment occurs exactly once."""
        found = source.count(self.fragment)
        if found != 1 or self.fragment == self.replacement:
            raise ValueError(f"{self.file} holds {self.fragment!r} {found} times, not once: mend its row in the table")
        return source.replace(self.fragment, self.replacement)


def mutants(file: str, tests: str, *changes: tuple[str, ...]) -> Iterator[Mutant]:
    """One mutant of `file` per (fragment, replacement) or (fragment, replacement, why no test sees it).

    `tests` are paths below tests/, with blanks between them.
    """
    for fragment, replacement, *why in changes:
        yield Mutant(file, fragment, replacement, tuple(f"tests/{path}" for path in tests.split()), *why)
