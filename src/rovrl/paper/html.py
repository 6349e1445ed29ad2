"""`rovrl report`: every table, figure and check of results/paper as one HTML file that asks nothing of the network."""

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
from rovrl.paper.checking import result
from rovrl.paper.item import Item, Row, Table
from rovrl.paper.markdown import verdict
from rovrl.paper.registry import ITEMS
from rovrl.paper.store import RESULTS, experiment, load, stem

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
    css = resources.files("rovrl.paper").joinpath("report.css").read_text("utf-8")
    made: dict[str, tuple[list[Row], dict[str, Any]]] = {}
    for item in ITEMS.values():
        if item.experiment and item.experiment not in made and (results / item.experiment / "meta.json").exists():
            made[item.experiment] = load(item.experiment, results)
    sections = [section(ITEMS[r["id"]], r, made, results) for r in checked]
    head = (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><title>RoVR-GSPO, reproduced</title>"
        f"<meta name='viewport' content='width=device-width,initial-scale=1'><style>{css}</style></head><body>"
    )
    return "\n".join([head, overview(checked), *sections, "</body></html>\n"])


def overview(checked: Sequence[dict[str, Any]]) -> str:
    """The heading, the counts, and a line for every label."""
    run = [r for r in checked if r["agrees"] is not None]
    good = sum(r["agrees"] for r in run)
    lines = []
    for r in checked:
        name = escape(r["id"])
        stand_in = "stand-in" if r["stand_in"] else ""
        link = f"<a href='#{stem(name)}'><code>{name}</code></a>"
        lines.append([link, escape(r["title"]), stand_in, _coloured(r["agrees"], verdict(r))])
    return (
        "<h1>RoVR-GSPO, reproduced</h1>"
        f"<p>{good} of {len(run)} labels agree with the published numbers; {len(checked) - len(run)} need GPUs or were "
        "not run. Simulations agree where every cell lies within the Monte Carlo error of both; stand-ins are streams drawn "
        "to the published facts, or runs of a small model, and agree within 10 % or by direction, as each check says.</p>"
        + _html_table(["label", "what", "", "agrees"], lines)
    )


def section(item: Item, r: dict[str, Any], made: dict[str, tuple[list[Row], dict[str, Any]]], results: Path) -> str:
    """All of one label: stand-in, findings, table, figure, checks, how it was made."""
    parts = [f"<h2 id='{stem(item.label)}'><code>{escape(item.label)}</code> {escape(item.title)}</h2>"]
    word = "" if r["agrees"] is None else "Agrees with the paper: "
    parts.append(f"<p>{word}{_coloured(r['agrees'], verdict(r))}</p>")
    if item.stand_in:
        parts.append(f"<p class='stand-in'>Stand-in: {escape(item.stand_in)}.</p>")
    if item.experiment is None:
        parts.append(f"<p>Published: {escape('; '.join(item.published))}.</p>")
        parts.append(f"<p>Would be made by: <code>{escape(item.recipe)}</code></p>")
    elif item.experiment not in made:
        parts.append(f"<p>{escape(r['status'])}.</p>")
    else:
        rows, meta = made[item.experiment]
        parts += [f"<p class='finding'>{escape(sentence)}</p>" for sentence in r.get("findings", [])]
        table = experiment(item.experiment).tables(rows).get(item.label)
        parts.append(_table(table) if table else "")
        parts.append(_figure(results / item.experiment / f"{stem(item.label)}.svg", item))
        parts += [_checks(r["cells"]), _made(meta)]
    return f"<section>{''.join(parts)}</section>"


def _table(table: Table) -> str:
    body = [[escape(cell) for cell in line] for line in table.body]
    return _html_table(table.header, body) + f"<p><small>{escape(table.caption)}</small></p>"


def _figure(path: Path, item: Item) -> str:
    """The SVG itself, its ids made unique in the page; nothing where there is none."""
    if not path.exists():
        return ""
    text = path.read_text("utf-8")
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    name = stem(item.label)
    text = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r'(href="|url\()#', rf"\1#{name}-", text)
    text = text.replace("<svg ", f'<svg role="img" aria-label="{escape(item.title)}" ', 1)
    return f"<figure>{text}</figure>"


def _checks(cells: Sequence[dict[str, Any]]) -> str:
    lines = [
        [
            escape(c["cell"]) + (f"<br><small>{escape(c['note'])}</small>" if c["note"] else ""),
            f"{c['ours']:.5g}",
            f"{c['published']:.5g}",
            escape(c["tolerance"]),
            _coloured(c["agrees"], "yes" if c["agrees"] else "no"),
        ]
        for c in cells
    ]
    table = _html_table(["cell", "ours", "published", "tolerance", "agrees"], lines)
    opened = "" if all(c["agrees"] for c in cells) else " open"
    return f"<details{opened}><summary>{len(cells)} numbers beside the published ones</summary>{table}</details>"


def _made(meta: dict[str, Any]) -> str:
    setting = ", ".join(f"{k} {json.dumps(v, ensure_ascii=False)}" for k, v in meta["setting"].items())
    versions = ", ".join(f"{k} {v}" for k, v in meta["versions"].items())
    size = "smoke setting" if meta["smoke"] else "full setting"
    return (
        f"<p class='meta'><small><code>{escape(meta['command'])}</code> ({size}, {meta['seconds']:g} s). "
        f"Setting: {escape(setting)}. Versions: {escape(versions)}.</small></p>"
    )


def _coloured(agrees: bool | None, words: str) -> str:
    kind = {True: "yes", False: "no", None: "none"}[agrees]
    return f"<span class='{kind}'>{escape(words.replace('**', ''))}</span>"


def _html_table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A table that scrolls inside itself on a phone; the cells are HTML already, the head is text."""
    top = "".join(f"<th>{escape(word)}</th>" for word in head)
    lines = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in line) + "</tr>" for line in body)
    table = f"<table><thead><tr>{top}</tr></thead><tbody>{lines}</tbody></table>"
    return f"<div class='scroll' tabindex='0'>{table}</div>"
