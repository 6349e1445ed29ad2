"""`rovrl report`: one file with everything in it, which asks nothing of the network."""

import re
import shutil
from pathlib import Path

import pytest

from rovrl.cli import main
from rovrl_paper.paper.html import page
from rovrl_paper.paper.registry import ITEMS
from rovrl_paper.paper.store import stem

RESULTS = Path(__file__).parents[4] / "results" / "paper"


@pytest.fixture(scope="module")
def text() -> str:
    return page(RESULTS)


def test_every_label_has_a_section_and_every_figure_and_table_is_in_it(text):
    for label in ITEMS:
        assert f'<h2 id="{stem(label)}">' in text
        assert f'href="#{stem(label)}"' in text
    figures = sorted(RESULTS.glob("*/*.svg"))
    assert len(figures) >= 8
    assert text.count("<svg ") == len(figures)
    assert text.count('stand-in">Stand-in: ') == sum(bool(item.stand_in) for item in ITEMS.values())


def test_nothing_is_fetched_and_nothing_runs(text):
    assert "<script" not in text
    assert re.findall(r"(?:src|href)=[\"'](?!#)[^\"']*", text) == []
    assert re.findall(r"url\((?!#)", text) == []
    assert "@import" not in text


def test_ids_are_unique_and_every_reference_has_its_id(text):
    ids = re.findall(r"\bid=[\"']([^\"']+)", text)
    assert sorted({i for i in ids if ids.count(i) > 1}) == []
    assert set(re.findall(r"(?:href=[\"']|url\()#([^\"')]+)", text)) <= set(ids)


def test_commands_settings_seeds_and_published_numbers_are_shown(text):
    for words in ("rovrl paper run sim_estimators", "seed 20250904", "torch 2.", "28.194", "1.5708", "needs GPUs"):
        assert words in text


def test_results_with_hostile_words_stay_words(tmp_path):
    shutil.copytree(RESULTS / "reward_contamination", tmp_path / "reward_contamination")
    rows = tmp_path / "reward_contamination" / "rows.csv"
    rows.write_text(rows.read_text().replace("Robust center,", "<script>alert(1)</script>,"))
    text = page(tmp_path)
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_a_report_of_nothing_or_to_nowhere_is_a_sentence(tmp_path, capsys):
    assert main(["report", "--results", str(tmp_path)]) == 2
    assert "no results in" in capsys.readouterr().err
    assert main(["report", "--results", str(RESULTS), "--out", str(tmp_path / "no" / "where.html")]) == 2
    assert "cannot write" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.browser
def test_in_a_browser_it_asks_for_nothing_and_fits_a_phone(tmp_path, capsys):
    from playwright.sync_api import sync_playwright

    out = tmp_path / "report.html"
    assert main(["report", "--results", str(RESULTS), "--out", str(out)]) == 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 390, "height": 800}, color_scheme="dark")
        asked, errors = [], []
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("console", lambda message: errors.append(message.text))
        tab.goto(out.as_uri())
        assert asked == [out.as_uri()]
        assert errors == []
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390
        assert tab.locator("figure svg").first.bounding_box()["height"] > 100
        browser.close()
