"""The pages: one HTML file with everything inside, that loads nothing and runs nothing but its own script.

Prompts and completions are untrusted. They are embedded as JSON with every `<`, `>`, `&` and `'` escaped (Jinja's `tojson`), in
a script element that is data and not code; the page's script puts them into the document with textContent only; and a content
security policy in the page allows exactly one script and one style, by their hashes, and no request of any kind.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from rovrl.audit.show.summary import mean_reward
from rovrl.errors import RovrlError
from rovrl.output.files import write_text
from rovrl.output.html import Html, element, environment, page, policy, table

if TYPE_CHECKING:
    from rovrl.audit.result import AuditResult

SCRIPTS = (
    *("estimators.js", "elements.js", "search.js", "plots.js", "tokens.js", "steps.js", "list.js", "group.js"),
    *("overview.js", "page.js"),
)
PAGES = ("audit.html", "audit.json")
"""The files that an audit writes."""
INDEX_STYLE = """:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;background:Canvas;color:CanvasText}
table{border-collapse:collapse;margin:1rem 0}th,td{padding:.4rem .8rem;border-bottom:1px solid #8884}
th,td{text-align:left;vertical-align:top}
td{overflow-wrap:anywhere;unicode-bidi:isolate}td:first-child{min-width:8rem}.scroll{overflow-x:auto}h1{overflow-wrap:anywhere}
@media(max-width:45rem){body{margin:1rem auto}thead{display:none}table,tbody,tr,td{display:block}
tr{border-bottom:1px solid #8884;padding:.6rem 0}td{border:0;padding:.1rem 0}
td:nth-child(2):not(:empty)::after{content:" groups"}td:nth-child(3):not(:empty)::before{content:"mean reward "}}
"""
"""On a phone a run is a paragraph: four columns beside one another would leave the verdict a letter's width."""


def write(result: AuditResult, directory: Path, groups: int = 5000) -> tuple[Path, Path]:
    """Writes audit.html and audit.json into `directory`; their paths. Both hold the same document."""
    document = result.to_dict(groups)
    html, data = (directory / name for name in PAGES)
    with unwritable(directory):
        directory.mkdir(parents=True, exist_ok=True)
        write_text(data, json.dumps(document, allow_nan=False, separators=(",", ":")))
        write_text(html, render(document))
    return html, data


@contextmanager
def unwritable(directory: Path) -> Iterator[None]:
    """Turns what goes wrong while writing into a sentence."""
    try:
        yield
    except OSError as error:
        raise RovrlError(
            f"cannot write the audit into {directory}: {error.strerror or error}; name another place with --out"
        ) from error


def render(document: dict[str, Any], template: str = "page.html", scripts: Sequence[str] = SCRIPTS) -> str:
    """The page as text, pure ASCII: a template of `assets` on the base page, with the audit's own style sheet."""
    style, script = _file("page.css"), "\n".join(_file(name) for name in scripts)
    return (
        environment("rovrl.audit.show")
        .get_template(f"assets/{template}")
        .render(policy=policy(style, script), style=Html(style), script=Html(script), data=document)
    )


def _file(name: str) -> str:
    return resources.files("rovrl.audit.show").joinpath("assets", name).read_text(encoding="ascii")


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
        return write_text(directory / "index.html", page("rovrl audit", INDEX_STYLE, body))


def _row(name: str, result: AuditResult | RovrlError) -> tuple[str, ...]:
    if isinstance(result, RovrlError):
        return name, "", "", f"not audited: {result}"
    link = element("a", name, href=f"{quote(name)}/audit.html")
    top = [element("div", result.findings[0].sentence)] if result.findings else []
    verdict = element("div", element("strong", result.verdict), *top)
    return link, f"{result.summary.groups:,}", mean_reward(result.summary), verdict


def _health(result: AuditResult | RovrlError) -> tuple[int, int]:
    """Smaller is worse: what could not be audited, then what has the most findings, then what has questions."""
    if isinstance(result, RovrlError):
        return -2, 0
    return -result.status, -len(result.findings) if result.findings else -bool(result.questions)
