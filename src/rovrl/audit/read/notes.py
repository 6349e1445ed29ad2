"""What was noticed while reading, for whoever reads the result; never by itself a reason to fail."""

from __future__ import annotations

from dataclasses import dataclass, field

SENTENCES_PER_CODE = 5
"""A hundred damaged files are not a hundred sentences: beyond so many only their number grows."""


@dataclass(frozen=True)
class Note:
    """Something a reader of the result should know."""

    code: str
    sentence: str


@dataclass
class Notes:
    """Collects notes; equal codes of many files become one sentence with a count."""

    notes: list[Note] = field(default_factory=list)
    counts: dict[tuple[str, str], int] = field(default_factory=dict)

    def tell(self, code: str, sentence: str) -> None:
        """Adds a note; beyond a few of the same code only the number grows."""
        note = Note(code, sentence)
        if sum(known.code == code for known in self.notes) >= SENTENCES_PER_CODE:
            self.count(code, "{n} more notes like the ones above", 1)
        elif note not in self.notes:
            self.notes.append(note)

    def count(self, code: str, sentence: str, number: int) -> None:
        """Adds to a running number; `sentence` has one `{n}` for it."""
        if number:
            self.counts[code, sentence] = self.counts.get((code, sentence), 0) + int(number)

    def all(self) -> list[Note]:
        """The notes with their numbers filled in."""
        counted = [Note(code, sentence.format(n=f"{number:,}")) for (code, sentence), number in self.counts.items()]
        return [*self.notes, *counted]
