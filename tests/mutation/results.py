"""Verdicts, kept in a file as they come, and the page's table made of them."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from mutation.mutant import Mutant
from mutation.run import KILLED, ROOT, SOURCE, SURVIVED, Verdict

HEADING = "## Result\n"


class Results:
    """Verdicts by mutant; those about other code in the mutated file or in its tests do not count."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self._known = {key: Verdict(*rest) for key, *rest in (json.loads(s) for s in lines if s.endswith("]"))}

    def __getitem__(self, mutant: Mutant) -> Verdict | None:
        return self._known.get(_key(mutant))

    def add(self, mutant: Mutant, verdict: Verdict) -> None:
        """Remembers a verdict, also if the run is interrupted afterwards."""
        self._known[_key(mutant)] = verdict
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write("\n" + json.dumps([_key(mutant), *verdict]))  # a line that was cut short ends here


def _key(mutant: Mutant) -> str:
    paths = [mutant.path(SOURCE), *(ROOT / test.partition("::")[0] for test in mutant.tests)]
    parts = (mutant.file, mutant.fragment, mutant.replacement, mutant.tests)
    return hashlib.sha256("".join([repr(parts), *map(_code, paths)]).encode()).hexdigest()


@lru_cache
def _code(path: Path) -> str:
    """What a file does, whatever its comments and docstrings say."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            body[:] = [line for line in body if not _is_text(line)]
    return ast.dump(tree)


def _is_text(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) and isinstance(line.value.value, str)


def summary(chosen: Sequence[Mutant], results: Results) -> str:
    """How many were killed, in which part of the sources, and the survivors with what explains them."""
    rooms = list(dict.fromkeys(room(mutant) for mutant in chosen))
    lines = ["| where | killed | survived | not run |", "|---|---|---|---|"]
    for one in [*rooms, "all"]:
        words = [_word(results, mutant) for mutant in chosen if one in (room(mutant), "all")]
        lines.append(f"| {one} | {words.count(KILLED)} | {words.count(SURVIVED)} | {words.count('')} |")
    killed, tried = count(chosen, results)
    lines += ["", f"{killed} of {tried} killed ({killed / max(tried, 1):.1%}), {len(chosen) - tried} not run."]
    for mutant in chosen:
        if _word(results, mutant) == SURVIVED:
            lines += ["", f"Survived: `{mutant.name}`. {mutant.why or 'Not explained.'}"]
    return "\n".join(lines)


def count(chosen: Sequence[Mutant], results: Results) -> tuple[int, int]:
    """How many were killed, and how many were tried."""
    words = [_word(results, mutant) for mutant in chosen]
    return words.count(KILLED), len(words) - words.count("")


def unexplained(chosen: Sequence[Mutant], results: Results) -> list[Mutant]:
    """The survivors of which the table does not say why no test can see them."""
    return [mutant for mutant in chosen if _word(results, mutant) == SURVIVED and not mutant.why]


def page(before: str, chosen: Sequence[Mutant], results: Results) -> str:
    """The page with this result in place of the one it has: the summary, and a row for every mutant."""
    rows = "\n".join(_rows(chosen, results))
    return f"{before.partition(HEADING)[0]}{HEADING}\n{summary(chosen, results)}\n\n{rows}\n"


def _rows(chosen: Sequence[Mutant], results: Results) -> Iterator[str]:
    yield "| file | formula | planted | verdict | by |\n|---|---|---|---|---|"
    for mutant in chosen:
        verdict = results[mutant] or Verdict("not run")
        by = verdict.by.rpartition("/")[2].replace("::", " ").partition("[")[0]
        yield f"| {mutant.file} | {_cell(mutant.fragment)} | {_cell(mutant.replacement)} | {verdict.word} | {by} |"


def _cell(code: str) -> str:
    return f"`{' '.join(code.split())}`".replace("|", "\\|") if code.strip() else "(nothing)"


def _word(results: Results, mutant: Mutant) -> str:
    verdict = results[mutant]
    return verdict.word if verdict else ""


def room(mutant: Mutant) -> str:
    """The part of the sources that a mutant belongs to."""
    parts = mutant.file.split("/")
    return parts[0] if len(parts) == 1 else "/".join(parts[:2] if parts[0] == "integrations" else parts[:1])
