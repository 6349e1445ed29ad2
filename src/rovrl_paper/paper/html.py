"""`rovrl report`: every table, figure and check of results/paper as one HTML file that needs no network."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from rovrl.errors import RovrlError
from rovrl.output.files import write_text
from rovrl.output.html import Html, element, joined
from rovrl.output.html import page as shell
from rovrl.output.html import table as html_table
from rovrl_paper.paper.checking import result, verdict
from rovrl_paper.paper.item import Item, Row, Table
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
    """The whole page as text."""
    checked = [result(item, results) for item in ITEMS.values()]
    css = resources.files("rovrl_paper.paper").joinpath("report.css").read_text("utf-8")
    made: dict[str, tuple[list[Row], dict[str, Any]]] = {}
    for item in ITEMS.values():
        if item.experiment and item.experiment not in made and (results / item.experiment / "meta.json").exists():
            made[item.experiment] = load(item.experiment, results)
    sections = [section(ITEMS[r["id"]], r, made, results) for r in checked]
    return shell(TITLE, css, [overview(checked), *sections])


def overview(checked: Sequence[dict[str, Any]]) -> Html:
    """The heading, the counts, and a line for every label."""
    run = [r for r in checked if r["agrees"] is not None]
    good = sum(r["agrees"] for r in run)
    lines = []
    for r in checked:
        link = element("a", element("code", r["id"]), href=f"#{stem(r['id'])}")
        lines.append([link, r["title"], "stand-in" if r["stand_in"] else "", _coloured(r["agrees"], verdict(r))])
    summary = (
        f"{good} of {len(run)} labels agree with the published numbers; {len(checked) - len(run)} need GPUs or were "
        "not run. Simulations agree where every cell lies within the Monte Carlo error of both; stand-ins are streams drawn "
        "to match the published facts, or runs of a small model, and agree within 10 % or by direction, as each check says."
    )
    return joined([element("h1", TITLE), element("p", summary), html_table(["label", "what", "", "agrees"], lines)])


def section(item: Item, r: dict[str, Any], made: dict[str, tuple[list[Row], dict[str, Any]]], results: Path) -> Html:
    """All of one label: stand-in, findings, table, figure, checks, how it was made."""
    parts = [element("h2", element("code", item.label), f" {item.title}", id=stem(item.label))]
    word = "" if r["agrees"] is None else "Agrees with the paper: "
    parts.append(element("p", word, _coloured(r["agrees"], verdict(r))))
    if item.stand_in:
        parts.append(element("p", f"Stand-in: {item.stand_in}.", class_="stand-in"))
    if item.experiment is None:
        parts.append(element("p", f"Published: {'; '.join(item.published)}."))
        parts.append(element("p", "Would be made by: ", element("code", item.recipe)))
    elif item.experiment not in made:
        parts.append(element("p", f"{r['status']}."))
    else:
        rows, meta = made[item.experiment]
        parts += [element("p", sentence, class_="finding") for sentence in r.get("findings", [])]
        table = experiment(item.experiment).tables(rows).get(item.label)
        parts.append(_table(table) if table else Html())
        parts.append(_figure(results / item.experiment / f"{stem(item.label)}.svg", item))
        parts += [_checks(r["cells"]), _made(meta)]
    return element("section", *parts)


def _table(table: Table) -> Html:
    return joined([html_table(table.header, table.body), element("p", element("small", table.caption))])


def _figure(path: Path, item: Item) -> Html:
    """The SVG itself, its ids made unique in the page; nothing where there is none."""
    if not path.exists():
        return Html()
    text = path.read_text("utf-8")
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    name = stem(item.label)
    text = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r'(href="|url\()#', rf"\1#{name}-", text)
    text = text.replace("<svg ", f'<svg role="img" aria-label="{escape(item.title)}" ', 1)
    return element("figure", Html(text))


def _checks(cells: Sequence[dict[str, Any]]) -> Html:
    lines = [
        [
            joined([c["cell"], Html("<br>"), element("small", c["note"])]) if c["note"] else c["cell"],
            f"{c['ours']:.5g}",
            f"{c['published']:.5g}",
            c["tolerance"],
            _coloured(c["agrees"], "yes" if c["agrees"] else "no"),
        ]
        for c in cells
    ]
    shown = html_table(["cell", "ours", "published", "tolerance", "agrees"], lines)
    summary = element("summary", f"{len(cells)} numbers beside the published ones")
    return element("details", summary, shown, open="" if all(c["agrees"] for c in cells) else "open")


def _made(meta: dict[str, Any]) -> Html:
    setting = ", ".join(f"{k} {json.dumps(v, ensure_ascii=False)}" for k, v in meta["setting"].items())
    versions = ", ".join(f"{k} {v}" for k, v in meta["versions"].items())
    size = "smoke setting" if meta["smoke"] else "full setting"
    words = f" ({size}, {meta['seconds']:g} s). Setting: {setting}. Versions: {versions}."
    return element("p", element("small", element("code", meta["command"]), words), class_="meta")


def _coloured(agrees: bool | None, words: str) -> Html:
    return element("span", words.replace("**", ""), class_={True: "yes", False: "no", None: "none"}[agrees])
