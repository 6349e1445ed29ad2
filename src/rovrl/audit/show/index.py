"""Several audited runs as one small page: the verdict of each, its top finding, and the way to its own page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from rovrl.audit.result import AuditResult
from rovrl.audit.show.page import unwritable
from rovrl.audit.show.summary import mean_reward
from rovrl.errors import RovrlError
from rovrl.output.files import write_text
from rovrl.output.html import Html, element, page, table

CSS = """:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;background:Canvas;color:CanvasText}
table{border-collapse:collapse;margin:1rem 0}th,td{padding:.4rem .8rem;border-bottom:1px solid #8884}
th,td{text-align:left;vertical-align:top}
td{overflow-wrap:anywhere;unicode-bidi:isolate}td:first-child{min-width:8rem}.scroll{overflow-x:auto}h1{overflow-wrap:anywhere}
@media(max-width:45rem){body{margin:1rem auto}thead{display:none}table,tbody,tr,td{display:block}
tr{border-bottom:1px solid #8884;padding:.6rem 0}td{border:0;padding:.1rem 0}
td:nth-child(2):not(:empty)::after{content:" groups"}td:nth-child(3):not(:empty)::before{content:"mean reward "}}
"""
"""On a phone a run is a paragraph: four columns beside one another would leave the verdict a letter's width."""


def write_index(path: str, results: Mapping[str, AuditResult | RovrlError], directory: Path) -> Path:
    """Writes index.html into `directory`, beside the folders of the runs' own pages; its path. The worst run comes first."""
    rows = sorted(results.items(), key=lambda item: (*_health(item[1]), item[0]))
    body = [
        element("h1", f"rovrl audit of {path}"),
        element("p", f"{len(results)} runs, each audited by itself."),
        table(("run", "groups", "mean reward", "verdict"), [_row(name, result) for name, result in rows]),
    ]
    with unwritable(directory):
        directory.mkdir(parents=True, exist_ok=True)
        return write_text(directory / "index.html", page("rovrl audit", CSS, body))


def _row(name: str, result: AuditResult | RovrlError) -> tuple[str, ...]:
    if isinstance(result, RovrlError):
        return name, "", "", f"not audited: {result}"
    link = element("a", name, href=f"{quote(name)}/audit.html")
    return link, f"{result.summary.groups:,}", mean_reward(result.summary), _verdict(result)


def _verdict(result: AuditResult) -> Html:
    top = [element("div", result.findings[0].sentence)] if result.findings else []
    return element("div", element("strong", result.verdict), *top)


def _health(result: AuditResult | RovrlError) -> tuple[int, int]:
    """Smaller is worse: what could not be audited, then what has the most findings."""
    return (-2, 0) if isinstance(result, RovrlError) else (-result.status, -len(result.findings))
