"""One group of the page on narrow screens and while one types: nothing lies over another, nothing is hidden."""

import pytest

import audit_dumps
from integration.audit.browsing import IN_A_BROWSER, PHONE, Watched
from rovrl.audit import audit, compare

pytestmark = IN_A_BROWSER


@pytest.fixture(scope="module")
def html(tmp_path_factory):
    """The page of records with token log-ratios and logged advantages."""
    folder = tmp_path_factory.mktemp("run")
    run = audit_dumps.records(folder / "records", audit_dumps.rewards(16, 16, spikes=0.05))
    return audit(run).write(folder / "audit")[0]


OVERLAPS = """(texts) => {
  const boxes = texts.map((node) => node.getBoundingClientRect());
  const over = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  return boxes.flatMap((a, i) => boxes.slice(i + 1).filter((b) => over(a, b))).length;
}"""


def test_on_a_phone_the_labels_of_a_token_strip_do_not_lie_over_one_another(browser, html):
    with Watched(browser, html, **PHONE) as watched:
        watched.page.locator("#only").select_option("tokens")
        watched.page.locator("#list tbody tr").first.tap()
        box = watched.page.locator("#group details", has_text="SoftRoVR").first
        box.locator("summary").tap()
        box.locator(".token").first.wait_for(state="attached")
        assert "Beyond the picture" in box.inner_text()
        assert box.locator("svg text").evaluate_all(OVERLAPS) == 0
        assert watched.errors == []


def test_on_a_phone_what_each_method_keeps_and_spends_is_seen_without_scrolling_sideways(browser, html):
    with Watched(browser, html, **PHONE) as watched:
        watched.page.locator("#list tbody tr").first.tap()
        table = watched.page.locator("table.kept")
        assert table.evaluate("(node) => node.scrollWidth <= node.parentElement.clientWidth")
        assert all(text.endswith("%") for text in table.locator("td:not(.meter)").all_inner_texts())


def test_on_a_phone_the_name_of_a_group_ends_before_the_next_column(browser, tmp_path):
    run = audit_dumps.verl(tmp_path / "run", audit_dumps.rewards(16, 8))  # its names are uuids
    html, _ = audit(run).write(tmp_path / "audit")
    with Watched(browser, html, **PHONE) as watched:
        names = watched.page.locator("#list tbody .name")
        assert names.count() == 16
        assert names.evaluate_all(
            "(all) => all.every((name) => getComputedStyle(name).overflowX === 'hidden' &&"
            " name.getBoundingClientRect().right <= name.closest('tr').querySelector('td').getBoundingClientRect().left)"
        )


def test_on_a_phone_a_comparison_shows_both_runs_the_difference_and_its_interval(browser, tmp_path):
    runs = [audit_dumps.verl(tmp_path / name, audit_dumps.rewards(16, 8, seed=k)) for k, name in enumerate("ab")]
    html, _ = compare(*runs).write(tmp_path / "compared")
    with Watched(browser, html, **PHONE) as watched:
        row = watched.page.locator("tr[data-measure=mean_reward]")
        titles = "(all) => all.map((td) => getComputedStyle(td, '::before').content.replaceAll('\"', '').trim())"
        assert row.locator("td").evaluate_all(titles)[:4] == ["A", "B", "B - A", "95 % interval"]
        edges = watched.page.locator("#differences td").evaluate_all(
            "(all) => all.map((td) => td.getBoundingClientRect().right)"
        )
        assert 0 < max(edges) <= 390
        assert watched.page.evaluate("document.documentElement.scrollWidth") <= 390
        assert watched.errors == []


def test_at_1280_the_advantages_are_seen_with_the_logged_ones_without_scrolling_sideways(browser, html):
    with Watched(browser, html, viewport={"width": 1280, "height": 900}) as watched:
        table = watched.page.locator("table.advantages")
        heads = table.locator("thead th").all_inner_texts()
        assert heads[-2:] == ["logged", "tokens"]
        assert table.evaluate("(node) => node.scrollWidth <= node.parentElement.clientWidth")


def test_what_is_typed_is_marked_at_once_in_the_group_that_is_shown_and_its_moved_reward_stays(browser, html):
    with Watched(browser, html) as watched:
        page = watched.page
        shown = page.evaluate("window.rovrlAudit.view.group.prompt")
        page.locator("#exact").fill("7.25")
        page.locator("#search").fill(shown)
        assert page.locator("#group mark").all_inner_texts() == [*shown.split()]
        assert page.locator("#group details[open] mark").count() == 2
        assert page.locator("#exact").input_value() == "7.25"
        page.locator("#search").fill("")
        assert page.locator("#group mark").count() == 0
        assert watched.errors == []
