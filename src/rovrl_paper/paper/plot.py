"""How our figures look: one place for size, fonts and frames; matplotlib is imported only here and only when asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rovrl.errors import require

STYLE = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "svg.hashsalt": "rovrl",
    "figure.constrained_layout.use": True,
    "savefig.dpi": 110,
    "svg.fonttype": "none",  # text stays text: smaller files, and a reader can search them
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Arial", "Helvetica", "sans-serif"],
}


def axes(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Any, Any]:
    """A figure and its axes in our style."""
    plt = require("matplotlib.pyplot", "report")
    plt.rcParams.update(STYLE)
    plt.switch_backend("Agg")
    return plt.subplots(rows, columns, figsize=(width, height), **options)


def plain_ticks(axis: Any, which: str, values: Sequence[float]) -> None:
    """A logarithmic axis with these ticks, written as plain numbers."""
    getattr(axis, f"set_{which}scale")("log")
    getattr(axis, f"set_{which}ticks")(list(values), [f"{v:g}" for v in values])
    getattr(axis, f"set_{which}ticks")([], minor=True)


def finish(figure: Any, *legends: Any) -> Any:
    """The figure with a legend on each of the axes given."""
    for axis in legends:
        axis.legend(fontsize=9)
    return figure
