"""Charts as SVG text."""

import math
import re

from rovrl.output.chart import COLOURS, STYLE, Series, line_chart
from rovrl.output.html import render


def colours(chart: str) -> dict[str, str]:
    """The colour of every line's name."""
    return {name: colour for colour, name in re.findall(r'style="fill:(#\w+)">([^<]+)<', chart)}


def test_a_method_has_the_same_colour_in_a_chart_where_another_method_has_no_values():
    both = line_chart([Series("GSPO", [1, 2], [0.1, 0.2]), Series("RoVR-GSPO", [1, 2], [0.1, 0.3])], "a", "x", "y")
    alone = line_chart([Series("GSPO", [], []), Series("RoVR-GSPO", [1, 2], [0.1, 0.3])], "b", "x", "y")
    silent = line_chart([Series("GSPO", [1.0], [math.nan]), Series("RoVR-GSPO", [1, 2], [0.1, 0.3])], "c", "x", "y")
    assert colours(both) == {"GSPO": COLOURS[0], "RoVR-GSPO": COLOURS[1]}
    assert colours(alone) == colours(silent) == {"RoVR-GSPO": COLOURS[1]}


def test_a_chart_finds_its_style_in_every_page_and_is_not_escaped_there():
    chart = line_chart([Series("<a>", [0, 1], [1.0, 2.0])], "l", "x", "y")
    page = render("parts_page.html", "rovrl.output", title="t", body=[chart])
    assert STYLE in page
    assert chart in page
    assert "<a>" not in page
    assert all(rule.startswith("svg.chart") for rule in STYLE.strip().splitlines())
    assert '<svg class="chart"' in page
