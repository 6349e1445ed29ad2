"""`rovrl report`: every table, figure and check of results/paper as one HTML file that needs no network."""

from __future__ import annotations

import argparse
import json
import re
from html import escape
from pathlib import Path
from typing import Any

from rovrl.errors import RovrlError
from rovrl.output.files import write_text
from rovrl.output.html import Html, render
from rovrl_paper.paper.checking import result, verdict
from rovrl_paper.paper.item import Item
from rovrl_paper.paper.registry import ITEMS
from rovrl_paper.paper.store import RESULTS, experiment, load, stem

TITLE = "RoVR-GSPO, reproduced"
EXAMPLE = """\
examples:
  rovrl report                                 report.html from the results in results/paper
  rovrl report --results mine --out mine.html  from your own runs of `rovrl paper run all --out mine`
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `rovrl report`."""
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help=f"what `rovrl paper run` wrote (default: {RESULTS})"
    )
    parser.add_argument("--out", type=Path, default=Path("report.html"), help="default: report.html")


def run(args: argparse.Namespace) -> int:
    """Writes the page; 0."""
    if not any(args.results.glob("*/meta.json")):
        raise RovrlError(
            f"no results in {args.results}; make some first: rovrl paper run all --smoke --out {args.results}"
        )
    try:
        write_text(args.out, page(args.results))
    except OSError as error:
        raise RovrlError(f"cannot write {args.out}: {error.strerror}; choose another --out") from None
    print(args.out)
    return 0


def page(results: Path) -> str:
    """The whole page as text: report.html, filled with every label."""
    labels = [_label(item, results) for item in ITEMS.values()]
    run = [label["agrees"] for label in labels if label["agrees"] is not None]
    return render("report.html", "rovrl_paper.paper", title=TITLE, labels=labels, run=len(run), good=sum(run))


def _label(item: Item, results: Path) -> dict[str, Any]:
    """All of one label: verdict, findings, table, figure, checks, and how it was made; `meta` is None if it was not."""
    checked = result(item, results)
    label = checked | {"item": item, "anchor": stem(item.label), "verdict": verdict(checked).replace("**", "")}
    folder = results / (item.experiment or "")
    if item.experiment is None or not (folder / "meta.json").exists():
        return label | {"meta": None}
    rows, meta = load(item.experiment, results)
    return label | {
        "meta": meta,
        "table": experiment(item.experiment).tables(rows).get(item.label),
        "figure": _figure(folder / f"{stem(item.label)}.svg", item),
        "setting": ", ".join(f"{k} {json.dumps(v, ensure_ascii=False)}" for k, v in meta["setting"].items()),
        "versions": ", ".join(f"{k} {v}" for k, v in meta["versions"].items()),
    }


def _figure(path: Path, item: Item) -> Html | None:
    """The SVG itself, its ids made unique in the page; None where there is none."""
    if not path.exists():
        return None
    text = path.read_text("utf-8")
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    name = stem(item.label)
    text = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r'(href="|url\()#', rf"\1#{name}-", text)
    return Html(text.replace("<svg ", f'<svg role="img" aria-label="{escape(item.title)}" ', 1))
