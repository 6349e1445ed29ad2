"""The page: one HTML file with everything inside, that loads nothing and runs nothing but its own script.

Prompts and completions are untrusted. They are embedded as JSON with every `<`, `>` and `&` escaped, in a script element that
is data and not code; the page's script puts them into the document with textContent only; and a content security policy in
the page allows exactly one script and one style, by their hashes, and no request of any kind.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rovrl.errors import RovrlError
from rovrl.output.files import write_text

if TYPE_CHECKING:
    from rovrl.audit.result import AuditResult

SCRIPTS = (
    *("estimators.js", "elements.js", "search.js", "plots.js", "tokens.js", "steps.js", "list.js", "group.js"),
    *("overview.js", "page.js"),
)
PAGES = ("audit.html", "audit.json")
"""The files that an audit writes."""
_ESCAPES = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}


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


def render(document: dict[str, Any], page_file: str = "page.html", scripts: Sequence[str] = SCRIPTS) -> str:
    """The page as text, pure ASCII."""
    style, script = _file("page.css"), "\n".join(_file(name) for name in scripts)
    data = json.dumps(document, allow_nan=False, separators=(",", ":")).translate(_ESCAPES)
    policy = (
        f"default-src 'none'; script-src 'sha256-{_hash(script)}'; style-src 'sha256-{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    page = _file(page_file)
    for name, text in (("policy", policy), ("style", style), ("script", script), ("data", data)):
        page = page.replace("{{" + name + "}}", text, 1)
    return page


def _file(name: str) -> str:
    return resources.files("rovrl.audit.show").joinpath("assets", name).read_text(encoding="ascii")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
