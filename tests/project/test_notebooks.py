"""The notebooks run from the first cell to the last, print what is stored in them, and lead to pages that exist."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
BOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
BOOK = pytest.mark.parametrize("path", BOOKS, ids=[path.stem for path in BOOKS])


def printed(book):
    """Per cell of code what it prints and shows as text; pictures are left to the eye."""
    return [
        "".join(part.text if part.output_type == "stream" else part.data["text/plain"] for part in cell.outputs)
        for cell in book.cells
        if cell.cell_type == "code"
    ]


def test_there_are_three():
    assert [path.stem for path in BOOKS] == ["auditing-a-trl-run", "choosing-settings", "rewards-to-advantages"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the kernel's client warns about its own event loop
@BOOK
def test_a_notebook_runs_and_prints_what_is_stored(path, tmp_path):
    stored = nbformat.read(path, as_version=4)
    run = nbformat.read(path, as_version=4)
    NotebookClient(run, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()  # an error is raised
    assert printed(run) == printed(stored)


@BOOK
def test_a_notebook_has_its_outputs_and_links_that_lead_somewhere(path):
    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    assert any(printed(book))
    text = "\n".join(cell.source for cell in book.cells if cell.cell_type == "markdown")
    targets = re.findall(r"\]\(([^)#\s]+)\)", text)
    assert targets
    assert [target for target in targets if not (path.parent / target).exists()] == []
    assert path.stat().st_size < 100_000
    assert "/tmp/" not in path.read_text()


@pytest.mark.parametrize("page", ["README.md", "docs/site/notebooks.md"])
def test_every_notebook_is_linked(page):
    text = (ROOT / page).read_text()
    assert [path.name for path in BOOKS if f"notebooks/{path.name})" not in text] == []
