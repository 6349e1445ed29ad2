"""Charts as SVG text."""

import math
import re

from rovrl.output.chart import COLOURS, Series, line_chart


def colours(chart: str) -> dict[str, str]:
    """The colour of every line's name."""
    return {name: colour for colour, name in re.findall(r'style="fill:(#\w+)">([^<]+)<', chart)}


def test_a_method_has_the_same_colour_in_a_chart_where_another_method_has_no_values():
    both = line_chart([Series("GSPO", [1, 2], [0.1, 0.2]), Series("RoVR-GSPO", [1, 2], [0.1, 0.3])], "a", "x", "y")
    alone = line_chart([Series("GSPO", [], []), Series("RoVR-GSPO", [1, 2], [0.1, 0.3])], "b", "x", "y")
    silent = line_chart([Series("GSPO", [1.0], [math.nan]), Series("RoVR-GSPO", [1, 2], [0.1, 0.3])], "c", "x", "y")
    assert colours(both) == {"GSPO": COLOURS[0], "RoVR-GSPO": COLOURS[1]}
    assert colours(alone) == colours(silent) == {"RoVR-GSPO": COLOURS[1]}
