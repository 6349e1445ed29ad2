"""Line charts as SVG text: no script, no font, no request; colours adapt to a dark page and differ in lightness too."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from markupsafe import Markup as Html

COLOURS = ("#b3541e", "#1f6fb2", "#3d8b57", "#7a4fa3", "#8a8a1a", "#a83266")
DASHES = ("", "", "6 3", "2 3", "8 3 2 3", "4 4")
WIDTH, HEIGHT = 640, 300
STYLE = """
svg.chart { width: 100%; max-width: 44rem; height: auto; font: 12px system-ui, sans-serif; }
svg.chart .grid { stroke: currentColor; opacity: 0.15; }
svg.chart text { fill: currentColor; }
svg.chart .tick, svg.chart .axis { opacity: 0.7; }
svg.chart .name { font-weight: 600; }
"""
"""In the sheet of every page, and inside a chart that is a file of its own."""
MOST_BANDS = 6
"""Of more lines the bands would only hide each other."""
LEFT, RIGHT, TOP, BOTTOM = 56, 180, 16, 44


class Series(NamedTuple):
    """A line, and where known the band around it."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


def line_chart(series: Sequence[Series], label: str, x_label: str, y_label: str, percent: bool = False) -> Html:
    """One chart; each line carries its name at its right end. Values that are not finite are left out.

    A line's colour is its place in `series`, with values or without: over several charts of the same methods each keeps it.
    """
    places = [place for place, s in enumerate(series) if _finite(s).x]
    lines = [_finite(series[place]) for place in places]
    if not lines:
        return Html(f"<p>{escape(label)}: no values.</p>")
    xs, ys = [v for s in lines for v in s.x], [v for s in lines for v in (*s.y, *s.low, *s.high)]
    x_ticks, y_ticks = ticks(min(xs), max(xs)), ticks(min(ys), max(ys))
    frame = _Frame((min(x_ticks[0], min(xs)), max(xs)), (y_ticks[0], y_ticks[-1]))
    parts = [
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label, quote=True)}">',
        *(frame.horizontal(tick, _number(tick, percent)) for tick in y_ticks),
        *(frame.vertical(tick, _number(tick, False)) for tick in x_ticks if tick <= max(xs)),
        f'<text class="axis" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x_label)}</text>',
        f'<text class="axis" transform="translate(13 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" '
        f'text-anchor="middle">{escape(y_label)}</text>',
    ]
    ends = _pushed_apart([frame.y(s.y[-1]) for s in lines])
    for i, line, end in zip(places, lines, ends, strict=True):
        colour, dash = COLOURS[i % len(COLOURS)], DASHES[(i + i // len(COLOURS)) % len(DASHES)]
        if line.low and len(lines) <= MOST_BANDS:
            edge = [*zip(line.x, line.high, strict=True), *reversed(list(zip(line.x, line.low, strict=True)))]
            parts.append(f'<polygon points="{frame.points(edge)}" fill="{colour}" opacity="0.15"/>')
        points = frame.points(list(zip(line.x, line.y, strict=True)))
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>'
        )
        parts.append(
            f'<text class="name" x="{WIDTH - RIGHT + 8}" y="{end:.1f}" style="fill:{colour}">{escape(line.name)}</text>'
        )
    return Html("".join([*parts, "</svg>"]))


def ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round numbers that cover [low, high], about `wanted` of them."""
    if high - low < 1e-12:
        low, high = low - 0.5 * (abs(low) or 1), high + 0.5 * (abs(high) or 1)
    raw = (high - low) / wanted
    power = 10 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def smoothed(values: Sequence[float], window: int) -> list[float]:
    """Means of the last `window` values, so that a noisy diagnostic can be read."""
    return [sum(part) / len(part) for i in range(len(values)) if (part := values[max(0, i - window + 1) : i + 1])]


class _Frame:
    """Data coordinates to places on the page."""

    def __init__(self, x_range: tuple[float, float], y_range: tuple[float, float]) -> None:
        self.x_range, self.y_range = x_range, y_range

    def x(self, value: float) -> float:
        low, high = self.x_range
        return LEFT + (value - low) / ((high - low) or 1) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        low, high = self.y_range
        return HEIGHT - BOTTOM - (value - low) / ((high - low) or 1) * (HEIGHT - TOP - BOTTOM)

    def points(self, pairs: Sequence[tuple[float, float]]) -> str:
        return " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in pairs)

    def horizontal(self, value: float, text: str) -> str:
        y = self.y(value)
        return (
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="tick" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
        )

    def vertical(self, value: float, text: str) -> str:
        x = self.x(value)
        return f'<text class="tick" x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{text}</text>'


def _finite(series: Series) -> Series:
    keep = [i for i, y in enumerate(series.y) if y is not None and math.isfinite(y)]

    def pick(values: Sequence[float]) -> list[float]:
        return [values[i] for i in keep] if values else []

    return Series(series.name, *(pick(values) for values in series[1:]))


def _pushed_apart(places: list[float], gap: float = 14.0) -> list[float]:
    """Label places moved apart so that none covers another, each as near to its line's end as that allows."""
    order, out, last = sorted(range(len(places)), key=places.__getitem__), [0.0] * len(places), -math.inf
    for i in order:
        last = max(places[i] + 4, last + gap)
        out[i] = last
    return out


def _number(value: float, percent: bool) -> str:
    if percent:
        return f"{100 * value:g} %"
    return f"{value:.0e}" if value and abs(value) < 1e-3 else f"{value:g}"
