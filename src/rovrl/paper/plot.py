"""How our figures look: one place for size, fonts and frames; matplotlib is imported only here and only when asked for."""

from __future__ import annotations

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
    "savefig.dpi": 160,
}


def axes(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Any, Any]:
    """A figure and its axes in our style."""
    plt = require("matplotlib.pyplot", "report")
    plt.rcParams.update(STYLE)
    plt.switch_backend("Agg")
    return plt.subplots(rows, columns, figsize=(width, height), **options)


def finish(figure: Any, *legends: Any) -> Any:
    """The figure with a legend on each of the axes given."""
    for axis in legends:
        axis.legend(fontsize=9)
    return figure
