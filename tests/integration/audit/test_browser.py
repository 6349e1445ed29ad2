"""The page in a real Chromium: it loads nothing, runs nothing that it was given, and its numbers are Python's."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import torch

import audit_dumps
import rovrl
from integration.audit.browsing import IN_A_BROWSER, Watched
from rovrl.audit import audit, compare
from rovrl.audit.measure.settings import Settings
from rovrl.audit.show.payload import _one_setting, _ratio_settings
from rovrl.baselines import ADVANTAGES as PEERS
from rovrl.groups import partition
from rovrl.robust.location import scale_source

pytestmark = IN_A_BROWSER
METHODS = ("grpo", "dr_grpo", "median_mad", "center", "credit")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The page and the JSON of a run with hostile texts, spikes, missing rewards and tied groups."""
    folder = tmp_path_factory.mktemp("run")
    scores = audit_dumps.rewards(64)
    scores[5, 3] = np.nan
    scores[6] = 1.0
    run = audit_dumps.verl(folder / "dump", scores, texts=audit_dumps.HOSTILE)
    html, data = audit(run).write(folder / "audit")
    return html, json.loads(data.read_text())


def test_the_page_loads_without_an_error_and_requests_nothing_but_itself(browser, written):
    html, _ = written
    with Watched(browser, html) as watched:
        assert watched.page.locator("#list tbody tr").count() == 40
        assert watched.page.locator("#group-title").inner_text().startswith("step ")
        assert watched.errors == []
        assert watched.requests == [html.as_uri()]


def test_a_page_opens_on_its_verdict_and_an_address_on_its_group(browser, written):
    html, document = written
    with Watched(browser, html, viewport={"width": 1280, "height": 700}) as watched:
        assert watched.page.evaluate("scrollY") == 0
        assert watched.page.locator("#list [aria-current]").count() == 1
        last = document["groups"][20]["id"]
        watched.page.evaluate(f"location.hash = 'group={last}'")
        watched.page.wait_for_function("scrollY > 0")


def test_hostile_prompts_and_completions_are_shown_as_text_and_do_nothing(browser, written):
    html, document = written
    with Watched(browser, html) as watched:
        page = watched.page
        count = "document.querySelectorAll('script, img, iframe, link, style, form, object, embed, meta').length"
        before = page.evaluate(count)
        for _ in range(3):
            page.keyboard.press("j")
            page.evaluate("document.querySelectorAll('#group details').forEach((d) => { d.open = true; })")
        page.wait_for_timeout(200)
        assert page.evaluate("window.hacked") is None
        assert (
            page.evaluate(
                "document.querySelectorAll('script, img, iframe, link, style, form, object, embed, meta').length"
            )
            == before
        )
        assert page.evaluate("getComputedStyle(document.body).display") != "none"
        shown = page.evaluate("[...document.querySelectorAll('#group .untrusted')].map((node) => node.textContent)")
        group = page.evaluate("window.rovrlAudit.view.group.id")
        saved = next(g for g in document["groups"] if g["id"] == group)
        assert sorted(shown) == sorted([saved["prompt"], *saved["completions"]])
        assert audit_dumps.HOSTILE[1] in shown
        assert watched.errors == []
        assert watched.dialogs == []
        assert watched.requests == [html.as_uri()]


def test_the_security_policy_refuses_an_injected_script_style_and_request(browser, written):
    html, _ = written
    with Watched(browser, html) as watched:
        watched.page.evaluate("""() => {
            const add = (tag, change) => document.body.append(Object.assign(document.createElement(tag), change));
            add("script", { textContent: "window.hacked = 9" });
            add("style", { textContent: "body { color: rgb(1, 2, 3) }" });
            add("img", { src: "https://example.com/leak.png" });
        }""")
        watched.page.wait_for_timeout(200)
        assert watched.page.evaluate("window.hacked") is None
        assert watched.page.evaluate("getComputedStyle(document.body).color") != "rgb(1, 2, 3)"
        assert sum("Content Security Policy" in error for error in watched.errors) == 3
        assert watched.refused == [("https://example.com/leak.png", "csp")]


def test_the_page_holds_the_same_document_as_the_json_and_shows_its_numbers(browser, written):
    html, document = written
    with Watched(browser, html) as watched:
        assert watched.page.evaluate("window.rovrlAudit.doc") == document
        row = watched.page.locator("#list tbody tr").first
        worst = document["groups"][0]
        assert row.get_attribute("data-id") == str(worst["id"])
        assert row.locator("td").nth(0).inner_text() == f"{100 * worst['lost']:.0f} %"
        assert row.locator("td").nth(3).inner_text() == str(worst["flips"])
        cards = watched.page.locator("#cards").inner_text()
        assert f"{document['summary']['responses']:,}" in cards
        assert watched.page.locator("#findings li").count() == len(document["findings"])
        centers = watched.page.evaluate("window.rovrlAudit.view.centers")
        assert centers["mean"] == pytest.approx(worst["mean"], rel=1e-12)
        assert centers["rovr"] == pytest.approx(worst["reference"], abs=1e-9)


def test_sorting_filtering_choosing_a_step_and_keys_work(browser, written):
    html, document = written
    with Watched(browser, html) as watched:
        page = watched.page
        page.locator("[data-sort=flips]").click()
        flips = [int(text) for text in page.locator("#list tbody tr td:nth-child(5)").all_inner_texts()]
        assert flips == sorted(flips, reverse=True)
        assert flips[0] == max(g["flips"] for g in document["groups"])
        page.locator("[data-sort=flips]").click()
        assert page.locator("#list tbody tr td:nth-child(5)").first.inner_text() == "0"
        page.locator("#only").select_option("tied")
        assert page.locator("#list tbody tr").count() == sum(g["tied"] for g in document["groups"])
        page.locator("#only").select_option("all")
        page.locator("#search").fill("step:3")
        assert page.locator("#list tbody tr").count() == sum(g["step"] == 3 for g in document["groups"])
        page.locator("#search").fill("")
        page.locator("#steps svg").press("Home")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        assert page.locator("#list tbody tr").count() == sum(g["step"] == 2 for g in document["groups"])
        assert page.evaluate("document.activeElement.getAttribute('role')") == "slider"
        page.locator("#clear-step").click()
        page.locator("body").click(position={"x": 2, "y": 2})
        first = page.evaluate("window.rovrlAudit.list.rows[0].id")
        page.evaluate("window.rovrlAudit.list.current = null")
        page.keyboard.press("j")
        assert page.evaluate("window.rovrlAudit.view.group.id") == first
        page.keyboard.press("j")
        page.keyboard.press("k")
        assert page.evaluate("window.rovrlAudit.view.group.id") == first
        page.keyboard.press("n")
        assert page.locator("#page").inner_text() == "page 2 of 2"
        page.keyboard.press("?")
        assert page.locator("#help").is_visible()
        page.keyboard.press("Escape")
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.id") == "search"
        assert watched.errors == []


def test_words_are_found_in_completions_and_marked_where_they_stand(browser, written):
    html, document = written
    with Watched(browser, html) as watched:
        page = watched.page
        page.locator("#search").fill('step:2-3 "window.hacked = 7"')
        wanted = [g["id"] for g in document["groups"] if g["step"] in (2, 3)]
        shown = page.locator("#list tbody tr").evaluate_all("(rows) => rows.map((row) => Number(row.dataset.id))")
        assert sorted(shown) == sorted(wanted)
        assert page.locator("#list mark").count() == len(wanted)
        page.locator("#list tbody tr").first.click()
        marked = page.locator("#group mark").all_inner_texts()
        assert set(marked) == {"window.hacked = 7"}
        assert page.locator("#group details[open] mark").count() == len(marked) > 0
        page.locator("#search").fill("group:no-such")
        assert page.locator("#list tbody").inner_text() == "No group fits."
        assert watched.errors == []


def test_an_address_brings_back_the_page_of_the_list_the_group_and_the_measure(browser, written):
    html, _ = written
    with Watched(browser, html) as watched:
        page = watched.page
        last = page.evaluate("window.rovrlAudit.list.rows.at(-1).id")
        page.goto(f"{html.as_uri()}#group={last}&metric=reward")
        page.reload()
        assert page.locator("#page").inner_text() == "page 2 of 2"
        assert page.locator("tr[aria-current]").get_attribute("data-id") == str(last)
        assert page.locator("#metric").input_value() == "reward"
        page.locator("#only").select_option("dominated")
        page.locator("#list tbody tr").nth(2).click()
        here = page.evaluate("window.rovrlAudit.view.group.id")
        page.reload()
        assert page.evaluate("window.rovrlAudit.view.group.id") == here
        assert page.locator("#only").input_value() == "dominated"
        assert watched.errors == []


@pytest.mark.parametrize("by", ["search", "step", "only"])
def test_a_filter_that_leaves_the_shown_group_out_survives_reloading(browser, written, by):
    html, _ = written
    with Watched(browser, html) as watched:
        page = watched.page
        first = page.evaluate("window.rovrlAudit.view.group.id")
        if by == "search":
            page.locator("#search").fill(f"step:{page.evaluate('window.rovrlAudit.list.rows.at(-1).step')}")
        elif by == "step":
            page.evaluate("window.rovrlAudit.chart.choose(window.rovrlAudit.list.rows.at(-1).step)")
        else:
            page.locator("#only").select_option("tied")
        count, rows = page.locator("#count").inner_text(), page.evaluate("window.rovrlAudit.list.rows.map((g) => g.id)")
        assert first not in rows
        page.reload()
        assert page.locator("#count").inner_text() == count
        assert page.evaluate("window.rovrlAudit.view.group.id") == rows[0]


@pytest.mark.parametrize("name", ["toString", "__proto__", "constructor"])
def test_a_measure_that_only_looks_like_one_is_passed_over(browser, written, name):
    html, _ = written
    with Watched(browser, html) as watched:
        page = watched.page
        usual = page.locator("#metric").input_value()
        page.goto(f"{html.as_uri()}#metric={name}&only={name}&sort={name}")
        page.reload()
        assert page.locator("#metric").input_value() == usual
        assert watched.errors == []


def test_the_keyboard_stays_where_it_was_and_the_row_in_view(browser, written):
    html, _ = written
    with Watched(browser, html) as watched:
        page = watched.page
        page.locator("#list tbody tr button").nth(3).focus()
        page.keyboard.press("Enter")
        name = page.evaluate("document.activeElement.closest('tr').dataset.id")
        assert name == page.locator("tr[aria-current]").get_attribute("data-id")
        page.locator("[data-sort=flips]").focus()
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.dataset.sort") == "flips"
        for _ in range(30):
            page.keyboard.press("j")
        box = page.locator("tr[aria-current]").bounding_box()
        assert -1 <= box["y"] <= page.viewport_size["height"] - box["height"] + 1  # parts of pixels
        stops = "document.querySelectorAll('#steps [tabindex=\"0\"], #steps button, #steps a').length"
        assert page.evaluate(stops) == 1


def test_a_finding_opens_the_chart_on_its_measure_and_filters_the_list(browser, written):
    html, document = written
    faulty, dominating = document["findings"][:2]
    assert [faulty["code"], dominating["code"]] == ["faulty_rewards", "dominating_rewards"]
    with Watched(browser, html) as watched:
        page = watched.page
        assert page.locator("#metric").input_value() == "finding:faulty_rewards"
        assert page.locator(".limit-name").count() == 0  # its threshold is of rewards, the chart counts groups
        page.locator("[data-code=faulty_rewards]").click()
        groups = int(re.search(r"rewards in (\d+) of the", faulty["sentence"])[1])
        assert page.locator("#count").inner_text() == f"{groups} of {len(document['groups'])}"
        page.locator("[data-code=dominating_rewards]").click()
        assert page.locator("#metric").input_value() == "dominated"
        threshold = page.locator(".limit-name").text_content()
        assert threshold == f"threshold of the run, {100 * dominating['threshold']:.0f} %"
        shares = document["steps"]["dominated"]
        worst = document["steps"]["step"][int(np.argmax(shares))]
        assert page.locator("#step-readout").inner_text().startswith(f"step {worst}: ")
        count = int(dominating["sentence"].split()[0])  # as many groups as the finding speaks of
        assert page.locator("#count").inner_text() == f"{count} of {len(document['groups'])}"


def test_rewards_out_of_the_declared_range_are_one_click_away(browser, tmp_path):
    scores = np.tile([0.0, 1.0, 0.0, 1.0], (24, 1))
    scores[3] = [0.0, 1.5, 0.0, 1.5]
    html, _ = audit(audit_dumps.verl(tmp_path / "run", scores), expect=["range=0:1"]).write(tmp_path / "audit")
    with Watched(browser, html) as watched:
        page = watched.page
        page.locator("[data-code=out_of_range]").click()
        assert page.locator("#count").inner_text() == "1 of 24"
        assert page.locator("#metric").input_value() == "finding:out_of_range"
        assert page.locator("#step-readout").inner_text().startswith("step 1: 13 %")
        page.locator("#list tbody tr").first.click()
        assert "outside the declared range: 2, 4" in page.locator("#group").inner_text()
        assert watched.errors == []


def test_a_page_opens_on_the_measure_of_its_top_finding_and_a_healthy_one_on_the_mean_reward(browser, tmp_path):
    scores = audit_dumps.rewards(24, 8, spikes=0.0)
    healthy = audit(audit_dumps.verl(tmp_path / "healthy", scores))
    scores[8:10, 1:] = np.nan
    scores[16:18, 1:] = np.nan
    limits = {"nonfinite_rewards": 1.0, "single_groups": 0.1}
    single = audit(audit_dumps.verl(tmp_path / "single", scores), threshold=limits)
    assert [[f.code for f in result.findings] for result in (healthy, single)] == [[], ["single_groups"]]
    for result, metric, marks in ((healthy, "mean_reward", 0), (single, "finding:single_groups", 1)):
        with Watched(browser, result.write(result.path / "audit")[0]) as watched:
            assert watched.page.locator("#metric").input_value() == metric
            assert watched.page.locator("#steps .worst-dot").count() == marks
            assert watched.errors == []


def test_each_method_shows_what_it_spends_on_the_dominating_rewards(browser, written):
    html, document = written
    group = document["groups"][0]
    with Watched(browser, html) as watched:
        for method in METHODS:
            size = np.abs(advantages(method, group["rewards"]))
            taken = watched.page.locator(f"[data-kept={method}]").get_attribute("data-taken")
            assert float(taken) == pytest.approx(size[group["dominating"]].sum() / size.sum(), rel=1e-9)
        rewards = watched.page.locator(".advantages tbody td:nth-child(2)").all_inner_texts()
        assert [float(r) for r in rewards] == sorted((float(r) for r in rewards), reverse=True)
        assert watched.page.locator(".bar-cut").count() >= 1


def test_the_control_moves_one_reward_and_every_method_answers_as_python_does(browser, written):
    html, document = written
    with Watched(browser, html) as watched:
        page = watched.page
        group = document["groups"][2]
        page.evaluate(
            "(id) => window.rovrlAudit.list.select(window.rovrlAudit.doc.groups.find((g) => g.id === id))", group["id"]
        )
        page.locator("#which").select_option("4")
        page.locator("#exact").fill("123.5")
        moved = list(group["rewards"])
        moved[4] = 123.5
        for method in METHODS:
            ours = page.evaluate("(name) => window.rovrlAudit.view.now[name]", method)
            np.testing.assert_allclose(ours, advantages(method, moved), rtol=1e-9, atol=1e-9)
        shown = page.locator("[data-method=credit][data-response='4']").inner_text()
        assert float(shown) == pytest.approx(advantages("credit", moved)[4], rel=1e-2)
        page.locator("#slider").evaluate("(node) => { node.value = 0; node.dispatchEvent(new Event('input')); }")
        assert page.evaluate("window.rovrlAudit.view.rewards[4]") < min(r for r in group["rewards"] if r is not None)
        page.locator("#reset").click()
        assert page.evaluate("window.rovrlAudit.view.rewards") == group["rewards"]
        assert watched.errors == []


def advantages(method: str, rewards: list[float | None], channel: rovrl.RewardChannel | None = None) -> np.ndarray:
    """Python's advantages of one group."""
    channel = channel or rovrl.RewardChannel()
    values = torch.tensor([np.nan if r is None else r for r in rewards], dtype=torch.float64)
    of = PEERS if method in PEERS else rovrl.ADVANTAGES
    return of[method](values, channel).numpy()


def test_the_formulas_in_the_page_agree_with_python_to_one_in_a_billion(browser, written):
    generator = np.random.default_rng(11)
    channels = [
        rovrl.RewardChannel(),
        rovrl.RewardChannel(num_blocks=4, num_levels=5, score_width=0.3, credit_bound=0.4, credit_floor=0.05),
        rovrl.RewardChannel(scale_source=0.2, tie_tolerance=0.01),
        rovrl.RewardChannel(failure_unit=None),
    ]
    cases = []
    for size in (2, 5, 9, 16, 40):
        for kind in range(6):
            group = [
                generator.normal(0, 1, size),
                generator.integers(0, 2, size).astype(float),
                np.full(size, 0.7),
                generator.standard_cauchy(size) * 100,
                np.where(np.arange(size) == 0, 1e12 if size > 2 else 9.0, generator.normal(0, 0.1, size)),
                generator.integers(0, 4, size) / 10,
            ][kind].tolist()
            if kind in (0, 5) and size > 4:
                group[1] = None
            for which in range(len(channels)):
                blocks, _ = partition(sum(r is not None for r in group), channels[which])
                if scale_source(blocks, channels[which]) != "lagged":  # the page is given that number, as in channel 2
                    cases.append((group, which))
    settings = [_one_setting(Settings(channel), list(range(1, 65))) for channel in channels]
    html, _ = written
    with Watched(browser, html) as watched:
        theirs = watched.page.evaluate(
            "([cases, settings, names]) => cases.map(([group, which]) =>"
            " names.map((name) => window.rovrlAudit.Estimators.advantages(name, group, settings[which])))",
            [cases, json.loads(json.dumps(settings)), METHODS],
        )
    assert len(cases) > 80
    for (group, which), answer in zip(cases, theirs, strict=True):
        for method, values in zip(METHODS, answer, strict=True):
            expected = advantages(method, group, channels[which])
            scale = max(1.0, np.abs(expected).max())
            assert np.abs(np.array(values) - expected).max() / scale < 1e-9, (method, group, which)


def test_soft_rovr_in_the_page_agrees_with_python_to_one_in_a_billion(browser, written):
    generator = np.random.default_rng(5)
    rows = [generator.normal(0, s, n) for n in (1, 3, 4, 8, 9, 43, 200) for s in (0.0, 1e-3, 0.05, 2.0)]
    for row in rows[8:]:
        row[: len(row) // 5] += 0.5
    html, _ = written
    channel = rovrl.RatioChannel()
    with Watched(browser, html) as watched:
        answers = watched.page.evaluate(
            "([rows, s]) => rows.map((row) => window.rovrlAudit.Estimators.softRovr(row, s).soft)",
            [[row.tolist() for row in rows], json.loads(json.dumps(_ratio_settings(channel)))],
        )
    for row, answer in zip(rows, answers, strict=True):
        assert answer == pytest.approx(float(rovrl.soft_rovr(torch.from_numpy(row), None, channel)), abs=1e-9)


def test_token_log_ratios_are_drawn_with_block_centers_mean_soft_rovr_and_band(browser, tmp_path):
    run = audit_dumps.records(tmp_path / "records", audit_dumps.rewards(8, 16))
    html, _ = audit(run).write(tmp_path / "audit")
    with Watched(browser, html) as watched:
        page = watched.page
        page.locator("#only").select_option("tokens")
        page.locator("#list tbody tr").first.click()
        box = page.locator("#group details", has_text="SoftRoVR").first
        box.locator("summary").click()
        box.locator(".block-line").nth(7).wait_for(state="attached")  # drawn when the box has opened
        assert box.locator(".block-line").count() == 8
        assert box.locator(".token").count() == 40
        cut = box.locator(
            ".token.cut"
        ).count()  # the burst of eight tokens, and what the noise sends beyond three bands
        assert 8 <= cut < 40
        beyond = box.locator(".beyond-note").inner_text()
        assert beyond == f"Beyond the picture: {cut} tokens, the mean and SoftRoVR."
        assert box.locator(".mark.beyond").count() == 2
        box.get_by_role("button", name="Show the whole range").click()
        assert box.locator(".token.cut").count() == 0
        assert box.locator(".clip-band, .mark.mean, .mark.rovr").count() == 3
        assert watched.errors == []


@pytest.mark.slow
def test_five_thousand_groups_are_listed_by_pages_and_not_all_at_once(browser, tmp_path):
    run = audit_dumps.table(tmp_path / "run.parquet", audit_dumps.rewards(5000, 16))
    html, _ = audit(run).write(tmp_path / "audit")
    with Watched(browser, html) as watched:
        assert watched.page.evaluate("window.rovrlAudit.list.rows.length") == 5000
        assert watched.page.evaluate("document.querySelectorAll('*').length") < 5000
        watched.page.locator("[data-sort=shift]").click()
        shifts = [abs(float(text)) for text in watched.page.locator("#list tbody tr td:nth-child(4)").all_inner_texts()]
        assert shifts == sorted(shifts, reverse=True)
        assert watched.errors == []


CONTRAST = """() => {
  const part = (v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color.length < 4 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!own || !node.getClientRects().length || node.closest("svg, script, :disabled, .skip")) continue;
    const [a, b] = [light(parse(getComputedStyle(node).color)), light(behind(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.push([node.tagName, node.className, node.textContent.slice(0, 30), ratio]);
  }
  return poor;
}"""
UNNAMED = """() => {
  const nodes = document.querySelectorAll("button, input, select, [role=button], [role=img], progress, svg[role]");
  const named = (node) => node.getAttribute("aria-label") || node.textContent.trim() || node.labels?.length;
  return [...nodes].filter((node) => !node.hidden && !named(node)).map((node) => node.outerHTML.slice(0, 80));
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_has_a_contrast_of_at_least_4_5_and_every_control_a_name(browser, written, theme):
    html, _ = written
    with Watched(browser, html, color_scheme=theme) as watched:
        assert watched.page.evaluate(CONTRAST) == []
        assert watched.page.evaluate(UNNAMED) == []
        watched.page.locator("#theme").click()
        assert watched.page.evaluate("document.documentElement.dataset.theme") == (
            "dark" if theme == "light" else "light"
        )
        assert watched.page.evaluate(CONTRAST) == []


def test_the_comparison_shows_the_same_prompt_of_both_runs_as_text_and_loads_nothing(browser, tmp_path):
    scores = audit_dumps.rewards(24)
    one = audit_dumps.verl(tmp_path / "a", scores)
    two = audit_dumps.verl(tmp_path / "b", scores - 1, texts=audit_dumps.HOSTILE)
    html, data = compare(one, two).write(tmp_path / "out")
    with Watched(browser, html) as watched:
        page = watched.page
        assert page.evaluate("window.rovrlAudit.doc") == json.loads(data.read_text())
        assert page.locator("#verdict-title").inner_text() == "Clearly worse than A: mean reward in B"
        page.locator(".pair-box summary").first.click()
        page.locator(".pair-box[open] .side svg").nth(1).wait_for()  # drawn when the box has opened
        assert page.locator(".pair-box[open] .side svg").count() == 2
        page.evaluate("document.querySelectorAll('.side details').forEach((d) => { d.open = true; })")
        page.locator("#metric").select_option("length")
        page.locator("#curves polyline").nth(1).wait_for(state="attached")
        assert page.locator("#curves polyline").count() == 2
        assert page.evaluate("window.hacked") is None
        assert page.evaluate(CONTRAST) == []
        assert watched.errors == []
        assert watched.requests == [html.as_uri()]


def test_rewards_as_large_as_numbers_get_are_shown_without_nan_and_with_shares(browser, tmp_path):
    generator = np.random.default_rng(0)
    scores = np.where(generator.random((20, 8)) < 0.1, 1e308, -1e308) * generator.random((20, 8))
    html, _ = audit(audit_dumps.table(tmp_path / "run.parquet", scores)).write(tmp_path / "audit")
    with Watched(browser, html) as watched:
        shown = watched.page.inner_text("body")
        assert "NaN" not in shown
        assert "Infinity" not in shown
        kept = watched.page.locator("tr[data-kept=dr_grpo] td").all_inner_texts()
        assert kept[1].endswith("%")
        over = watched.page.eval_on_selector_all("#cards dd", "all => all.map(dd => dd.scrollWidth - dd.clientWidth)")
        assert max(over) <= 0  # every number fits its card
        assert watched.errors == []


def test_a_phone_shows_the_page_without_sideways_scrolling(browser, written):
    html, _ = written
    phone = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True, "device_scale_factor": 2}
    with Watched(browser, html, **phone) as watched:
        page = watched.page
        assert page.evaluate("document.querySelector('#groups').getBoundingClientRect().top") < 1200
        assert not page.locator("#findings details").first.evaluate("(node) => node.open")
        page.locator("#list tbody tr").nth(1).tap()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert page.locator("#back").is_visible()
        page.locator("#back").tap()
        assert watched.errors == []
