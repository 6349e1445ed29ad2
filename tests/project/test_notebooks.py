"""The notebooks run from the first cell to the last, print what is stored in them, and lead to pages that exist."""

import os
import re
import shutil
import tempfile
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
BOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
BOOK = pytest.mark.parametrize("path", BOOKS, ids=[path.stem for path in BOOKS])


def printed(book):
    """Per cell of code what it prints and shows as text; pictures are left to the eye."""
    return [
        "".join(part.text if part.output_type == "stream" else part.data["text/plain"] for part in cell.outputs)
        for cell in book.cells
        if cell.cell_type == "code"
    ]


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
    assert tempfile.gettempdir() not in path.read_text()


@pytest.mark.parametrize("page", ["README.md", "docs/site/notebooks.md"])
def test_every_notebook_is_linked(page):
    text = (ROOT / page).read_text()
    assert [path.name for path in BOOKS if f"notebooks/{path.name})" not in text] == []


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None and not os.environ.get("CI"), reason="no Chromium found")
def test_the_slider_moves_the_advantages_and_asks_for_nothing(tmp_path):
    from playwright.sync_api import sync_playwright

    book = nbformat.read(ROOT / "docs/notebooks/rewards-to-advantages.ipynb", as_version=4)
    [shown] = [
        part.data["text/html"]
        for c in book.cells
        for part in c.get("outputs", [])
        if "text/html" in part.get("data", {})
    ]
    (tmp_path / "cell.html").write_text(f"<!doctype html><meta charset=utf-8>{shown}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page, asked, errors = browser.new_page(), [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto((tmp_path / "cell.html").as_uri())
        spread = "[...document.querySelectorAll('svg circle')].slice(0, 15).map(c => +c.getAttribute('cx'))"
        page.focus("input")
        page.keyboard.press("Home")
        clean = page.evaluate(spread)
        page.keyboard.press("End")
        broken = page.evaluate(spread)
        browser.close()
    assert (len(asked), errors) == (1, [])
    assert max(clean) - min(clean) > 60  # GRPO's advantages of right and wrong, while the bad reward is like the others
    assert max(broken) - min(broken) < 1  # and when it is 1000
