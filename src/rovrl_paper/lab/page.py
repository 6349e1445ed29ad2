"""The page of a run: learning curves, diagnostics and sample responses in one HTML file that needs no network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rovrl.output.chart import Series, line_chart, smoothed
from rovrl.output.files import read_lines, write_text
from rovrl.output.html import Html, render
from rovrl.records import read_steps
from rovrl_paper.lab.accuracy import Comparison, Row, percent, points, title
from rovrl_paper.lab.job import command, finished, preamble, versions
from rovrl_paper.lab.pool import Order

SAMPLES = 8
"""Responses of a group that are shown."""


def write_page(out: Path, orders: Sequence[Order], rows: Sequence[Row], comparisons: Sequence[Comparison]) -> Path:
    """Writes OUT/index.html, train.html filled with the runs, and returns its path."""
    text = render(
        "train.html",
        "rovrl_paper.lab",
        command=command(),
        preamble=preamble(orders[0].job),
        seeds=rows[0].seeds,
        accuracy_head=("method", "before, %", "after, %", "sd of seeds", f"minus {title(rows[0].method)}, points"),
        accuracy=[
            (
                title(row.method),
                percent(row.before),
                percent(row.after),
                "–" if row.sd != row.sd else f"{100 * row.sd:.1f}",
                points(row.difference) if row.difference else "–",
            )
            for row in rows
        ],
        comparisons=[(f"{title(c.ours)} minus {title(c.theirs)}", points(c.difference)) for c in comparisons],
        figures=list(_figures(orders, rows)),
        samples=list(_samples(orders)),
        versions=", ".join(f"{k} {v}" for k, v in versions().items()),
    )
    return write_text(out / "index.html", text)


DIAGNOSTICS = (
    ("clip_ratio/region_mean", "Clipping", "Share of responses outside the clip band (mean of 20 steps)."),
    ("grad_norm", "Gradient", "Norm of the gradient before clipping to 1 (mean of 20 steps)."),
    ("rovr/weight_disagreement", "Weight", "|SoftRoVR - mean| relative to |mean| of the log-ratios (mean of 20 steps)."),
)  # fmt: skip


def _figures(orders: Sequence[Order], rows: Sequence[Row]) -> Iterator[tuple[str, str, Html]]:
    """(heading, text, chart) of each figure."""
    methods = [row.method for row in rows]
    runs = {method: [o for o in orders if o.job.method == method] for method in methods}
    curves = [learning_curve(m, runs[m]) for m in methods]
    text = "Greedy accuracy on the held-out problems. Bands: lowest and highest seed."
    yield "Learning", text, Html(line_chart(curves, "accuracy", "generation", "accuracy", percent=True))
    contrasts = [Series(title(m), *credit_for_being_right(runs[m])) for m in methods]
    text = (
        "Mean advantage of right minus wrong responses, over groups that hold both; responses with planted corruption left out "
        "(mean of the last 5 generations). This is what is left of the signal."
    )
    yield "Contrast", text, Html(line_chart(contrasts, "contrast", "generation", "advantage"))
    for name, heading, text in DIAGNOSTICS:
        lines = [Series(title(m), *_metric(runs[m], name)) for m in methods]
        yield heading, text, Html(line_chart(lines, heading, "optimizer step", name))


def learning_curve(method: str, orders: Sequence[Order]) -> Series:
    """Mean accuracy of a method's runs over generations, with the range of seeds where there are several."""
    curves = [finished(order.directory) or {"evaluations": []} for order in orders]
    return accuracy_series(title(method), [curve["evaluations"] for curve in curves])


def accuracy_series(name: str, curves: Sequence[Sequence[dict[str, Any]]]) -> Series:
    """Several learning curves as one line with the band of their extremes."""
    x = [row["generation"] for row in curves[0]]
    y = np.array([[row["accuracy"] for row in curve] for curve in curves])
    if len(curves) == 1:
        return Series(name, x, y[0].tolist())
    return Series(name, x, y.mean(0).tolist(), y.min(0).tolist(), y.max(0).tolist())


def credit_for_being_right(orders: Sequence[Order]) -> tuple[list[float], list[float]]:
    """Generations, and the mean advantage of right minus wrong among the untouched responses of mixed groups."""
    found: dict[int, list[float]] = {}
    for order in orders:
        if not (order.directory / "records").exists():
            continue
        columns = ["update", "group", "prompt", "completion", "advantage", "contamination"]
        for step, rows in read_steps(order.directory, columns):
            found.setdefault(step, []).extend(_contrasts(rows.to_pydict(), order.job.world.score))
    steps = sorted(step for step in found if found[step])
    return [float(s) for s in steps], smoothed([float(np.mean(found[s])) for s in steps], 5)


def _contrasts(rows: dict[str, list[Any]], score: Callable[[str, str], float]) -> Iterator[float]:
    groups: dict[str, tuple[list[float], list[float]]] = {}
    for group, problem, text, advantage, label in zip(
        *(rows[name] for name in ("group", "prompt", "completion", "advantage", "contamination")), strict=True
    ):
        if not label:
            groups.setdefault(group, ([], []))[int(score(problem, text))].append(advantage)
    for wrong, right in groups.values():
        if wrong and right:
            yield sum(right) / len(right) - sum(wrong) / len(wrong)


def _metric(orders: Sequence[Order], name: str) -> tuple[list[float], list[float]]:
    """Optimizer steps, and the mean over runs of a logged number, smoothed."""
    found: dict[int, list[float]] = {}
    for order in orders:
        for row in read_lines(order.directory / "metrics.jsonl"):
            if isinstance(row.get(name), int | float):
                found.setdefault(row["step"], []).append(row[name])
    steps = sorted(found)
    return [float(s) for s in steps], smoothed([float(np.mean(found[s])) for s in steps], 20)


def _samples(orders: Sequence[Order]) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """(method, rows) of the last recorded generation's first group, per method of the first seed."""
    for order in orders:
        if order.job.seed == orders[0].job.seed and (order.directory / "records").exists():
            yield title(order.job.method), _last_group(order)


def _last_group(order: Order) -> list[tuple[str, ...]]:
    columns = ["group", "prompt", "completion", "reward", "advantage", "contamination"]
    last: Any = None
    for _, last in read_steps(order.directory, columns):  # noqa: B007 - the last one is wanted
        pass
    rows = last.to_pylist() if last is not None else []
    return [
        (
            f"{row['prompt']}{row['completion']}",
            f"{order.job.world.score(row['prompt'], row['completion']):.2g}",
            "–" if row["reward"] is None else f"{row['reward']:.2f}",
            f"{row['advantage']:+.2f}",
            row["contamination"] or "–",
        )
        for row in rows
        if row["group"] == rows[0]["group"]
    ][:SAMPLES]
