"""The documentation site: its links lead somewhere, its equations are MathML, and it loads nothing from elsewhere."""

import os
import re
import runpy
import shutil
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

ROOT = Path(__file__).parents[2]
GALLERY = ("training", "audit", "report")
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # mkdocs and its plugins warn in several ways


class Quiet(SimpleHTTPRequestHandler):
    """The site's server, without a line per request."""

    def log_message(self, *words):
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built once, with the gallery."""
    place = tmp_path_factory.mktemp("site")
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(place)))
    runpy.run_path(str(ROOT / "docs" / "site" / "build.py"))["gallery"](place)
    return place


def test_every_page_asks_no_other_host_for_anything(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 15
    loaded = re.compile(r"<(?:script|img|iframe|link rel=.?stylesheet)[^>]+(?:src|href)=.?(https?://[^\s>]+)")
    assert {page.name: loaded.findall(page.read_text()) for page in pages if loaded.search(page.read_text())} == {}


def test_the_reference_has_the_public_functions_with_their_equations(site):
    page = (site / "reference.html").read_text()
    assert page.count("<math") >= 4
    assert all(
        f'id="rovrl.{name}"' in page for name in ("grouped_advantages", "soft_rovr", "RewardChannel", "RewardRun")
    )


def test_readme_is_the_first_page_and_llms_txt_lists_every_page(site):
    assert "one bad reward" in (site / "index.html").read_text()
    listed = (site / "llms.txt").read_text()
    assert all(f"docs/{page.name})" in listed for page in (ROOT / "docs").glob("*.md"))


def test_every_page_of_the_gallery_is_there_and_linked(site):
    text = (site / "gallery.html").read_text()
    assert sorted(path.stem for path in (site / "gallery").iterdir()) == sorted(GALLERY)
    assert [name for name in GALLERY if f'href="gallery/{name}.html"' not in text] == []


def test_every_page_is_in_the_menu_once():
    menu = re.findall(r"^ +- [^:]+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    made = {"index.md", "reference.md", "gallery.md", "notebooks.md"}
    assert sorted(set(menu) - made) == sorted(page.name for page in (ROOT / "docs").glob("*.md"))
    assert len(menu) == len(set(menu))


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None and not os.environ.get("CI"), reason="no Chromium found")
def test_in_a_browser_the_site_asks_no_other_host_searches_and_fits_a_phone(site):
    from playwright.sync_api import sync_playwright

    handler = partial(Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, sync_playwright() as playwright:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 390, "height": 844})
        asked, errors = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        here = f"http://127.0.0.1:{server.server_port}"
        for name in ("reference.html", *(f"gallery/{name}.html" for name in GALLERY), "index.html"):
            page.goto(f"{here}/{name}", wait_until="networkidle")
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, name
        page.set_viewport_size({"width": 1280, "height": 900})
        page.click("[data-md-component=search-query]")
        page.keyboard.type("leave-one-out")
        page.wait_for_selector(".md-search-result__item a", timeout=60_000)
        assert [url for url in asked if not url.startswith((here, "data:"))] == []
        assert errors == []
        browser.close()
        server.shutdown()
