"""The page of several runs: the worst first, each a way to its own page, readable on a phone."""

import json

import pytest

import audit_dumps
from integration.audit.browsing import IN_A_BROWSER, PHONE, Watched
from rovrl.cli import main

pytestmark = IN_A_BROWSER


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """The index of a healthy run, one with findings, one with more of them, and one that cannot be read."""
    folder = tmp_path_factory.mktemp("runs")
    audit_dumps.verl(folder / "a healthy run", audit_dumps.rewards(60, 16, spikes=0.0))
    audit_dumps.verl(folder / "spiked", audit_dumps.rewards(64, 8))
    scores = audit_dumps.rewards(64, 8)
    scores[::2, 0] = float("nan")
    audit_dumps.verl(folder / "spiked-with-missing-rewards-and-a-name-that-is-longer-than-a-phone-is-wide", scores)
    (folder / "unreadable").mkdir()
    (folder / "unreadable" / "1.jsonl").write_text(
        json.dumps({"input": "", "output": "", "score": 1, "uid": "pad_0_0"})
    )
    assert main(["audit", str(folder)]) == 1
    return folder / "audit" / "index.html"


def test_the_worst_run_comes_first_and_each_leads_to_its_own_page(browser, index):
    with Watched(browser, index) as watched:
        names = watched.page.locator("tbody tr td:first-child").all_inner_texts()
        assert [name.split("-")[0] for name in names] == ["unreadable", "spiked", "spiked", "a healthy run"]
        assert names[1].startswith("spiked-with-missing")
        watched.page.get_by_role("link", name="a healthy run").click()
        assert watched.page.locator("#verdict-title").inner_text().startswith("Healthy")


def test_on_a_phone_nothing_is_cut_off_and_a_run_takes_less_than_half_of_the_screen(browser, index):
    with Watched(browser, index, **PHONE) as watched:
        assert watched.page.evaluate("document.documentElement.scrollWidth") <= 390
        assert watched.page.evaluate("document.querySelector('.scroll').scrollWidth") <= 390
        assert max(row.bounding_box()["height"] for row in watched.page.locator("tbody tr").all()) < 422
        assert "64 groups" in watched.page.evaluate(
            "[...document.querySelectorAll('td:nth-child(2)')].map((td) => td.textContent +"
            " getComputedStyle(td, '::after').content.replaceAll('\"', '')).join()"
        )
        assert watched.errors == []
