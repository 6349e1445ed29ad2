"""docs/siblings.md is true: what it names exists, every pair has its test, and no compiled file is missing from it."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "siblings.md").read_text()
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ")][1:]
NAMED = re.compile(r"`([\w/.]+)::(\w+)`")
NO_FORMULA = {"__init__.py", "jit.py", "constants.py"}


def place(path: str) -> Path:
    if path.startswith("tests/"):
        return ROOT / path
    below = "tests" if re.match(r"(unit|gradient|integration)/", path) else "src/rovrl"
    return ROOT / below / path


def test_every_function_and_every_test_that_is_named_exists():
    named = NAMED.findall(PAGE)
    assert len(named) > 40
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not re.search(rf"(def|function) {name}\(|const {name} =", place(path).read_text())
    ]
    assert missing == []


def test_every_sibling_of_a_torch_function_names_the_test_that_holds_it():
    assert len(ROWS) == 8
    for row in ROWS:
        _, torch_version, *siblings = [cell.strip() for cell in row.strip("|").split("|")]
        assert len(NAMED.findall(torch_version)) == 1, row
        for cell in filter(None, siblings):
            assert re.fullmatch(r"`[\w/.]+::\w+`, held by `[\w/]+\.py::test_\w+`", cell), cell


def test_every_compiled_file_is_on_the_page():
    kernels = ROOT / "src" / "rovrl" / "robust" / "kernels"
    compiled = {path.name for path in kernels.glob("*.py")} - NO_FORMULA
    assert {name for name in compiled if f"robust/kernels/{name}::" in PAGE} == compiled
