"""The table of docs/reliability.md."""

from __future__ import annotations

from pathlib import Path

from soak.parts import PARTS, Part
from soak.results import Results

BEGIN, END = "<!-- written by `make soak` -->", "<!-- end -->"


def table(results: Results, scale: float) -> str:
    """A row for each part: what must be shown, what was found, how to run it."""
    rows = ["| must | found | `python -m soak` |", "|---|---|---|"]
    for name, part in PARTS.items():
        rows.append(f"| {part.must} | {_verdict(name, part, results, scale)} | `{name}` |")
    return "\n".join(rows)


def _verdict(name: str, part: Part, results: Results, scale: float) -> str:
    found, so_far = results.of(name, part, scale), results.so_far(name, part, scale)
    if found is not None:
        return f"{'**no**' if part.missed(found) else 'yes'}: {told(part.line, found)}"
    return "not run" if so_far is None else f"not finished; so far: {told(part.line, so_far)}"


def told(line: str, found: dict[str, float]) -> str:
    """`line` with the numbers in their places; a place is {name:format}, and a name may hold colons and spaces."""
    for name, value in found.items():
        before, place, rest = line.partition("{" + name + ":")
        if place:
            form, _, after = rest.partition("}")
            line = before + format(value, form) + after
    return line


def write(page: Path, results: Results) -> None:
    """Puts the table of the full run between the two marks of the page."""
    text = page.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    page.write_text(f"{head}{BEGIN}\n\n{table(results, 1.0)}\n\n{END}{tail}", encoding="utf-8")
