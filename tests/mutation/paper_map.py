"""docs/paper-map.md as data: its rows, and where in the source a name of it is."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SOURCE, TESTS, MAP = ROOT / "src", ROOT / "tests", ROOT / "docs" / "paper-map.md"


class Row(NamedTuple):
    """A label of the paper, the functions that compute it and the tests that hold it."""

    label: str
    functions: list[str]
    tests: list[str]


def rows() -> list[Row]:
    """The rows of the map."""
    table = [line.strip("|").split("|") for line in MAP.read_text().splitlines() if line.startswith("| `")]
    assert table, "docs/paper-map.md has no rows"
    assert all(len(cells) == 4 for cells in table), "a row has label, what, where, test"
    names = [[re.findall(r"`([^`]+)`", cell) for cell in cells] for cells in table]
    assert all(len(label) == 1 for label, *_ in names), "one label per row"
    return [Row(label[0], functions, tests) for label, _, functions, tests in names]


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(), str(path))


def file_of(dotted: str) -> tuple[Path, list[str]] | None:
    """The file of a dotted name below rovrl (or below rovrl_paper, if it begins so), and the names inside it."""
    parts = dotted.split(".")
    parts = parts if parts[0] == "rovrl_paper" else ["rovrl", *parts]
    for cut in range(len(parts), 0, -1):
        for path in (SOURCE.joinpath(*parts[:cut]).with_suffix(".py"), SOURCE.joinpath(*parts[:cut], "__init__.py")):
            if path.is_file():
                return path, parts[cut:]
    return None


def lines_of(dotted: str) -> tuple[Path, range]:
    """The file that defines it, and the lines; none for a whole module."""
    found = file_of(dotted)
    assert found is not None, f"there is no {dotted}"
    path, inside = found
    node: ast.AST = parsed(path)
    for name in inside:
        node = next(child for child in ast.iter_child_nodes(node) if name in _names(child))
    return path, range(node.lineno, (node.end_lineno or 0) + 1) if isinstance(node, ast.stmt) else range(0)


def _names(node: ast.AST) -> list[str]:
    """What a statement defines."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]
