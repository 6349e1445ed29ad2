"""Pages in one file that need no network: Jinja templates that escape every text, on one base page with one style sheet.

A page is a template beside the code that fills it, `{% extends "base.html" %}` with a block `title` and a block `body`:

    render("index.html", "rovrl.audit.page", runs=rows)

Every value is escaped unless it is `Html`; data for a script goes in as `{{ data|tojson }}` inside a script element that is
data and not code. `{% from "parts.html" import table %}` brings what several pages need.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib import resources
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from rovrl.output.chart import STYLE

Html = Markup
"""Text that is HTML already; every other text is escaped where it enters a page."""


def render(template: str, package: str, *, style: str = "", script: str = "", **values: Any) -> str:
    """The page of `template`, a file in `package`, filled with `values`.

    `style` comes after the sheet of all pages and `script` at the end; both are ours, not text of a user. The page loads
    nothing. One with a script runs only that, and only its own style applies, both held by their hashes; one without may
    carry figures with styles of their own (matplotlib's).
    """
    sheet = resources.files("rovrl.output").joinpath("style.css").read_text("utf-8") + STYLE + style
    filled = values | {"policy": policy(sheet, script), "style": Html(sheet), "script": Html(script)}
    return environment(package).get_template(template).render(filled)


def policy(style: str, script: str) -> str:
    """The content security policy of a page: no request, and with a script nothing but that and its style, by their hashes."""
    allowed = (
        f"script-src 'sha256-{_sha256(script)}'; style-src 'sha256-{_sha256(style)}'"
        if script
        else "style-src 'unsafe-inline'"
    )
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


@lru_cache
def environment(package: str) -> Environment:
    """Jinja for the templates in `package` and those of all pages: every value escaped, an unknown name an error."""
    places = ChoiceLoader([PackageLoader(package, "."), PackageLoader("rovrl.output", ".")])
    made = Environment(loader=places, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return made


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def element(tag: str, *content: str, **attributes: str) -> Html:
    """<tag attributes>content</tag>; an attribute `class_` is `class`, and one that is empty is left out."""
    given = "".join(f' {name.rstrip("_")}="{escape(value)}"' for name, value in attributes.items() if value)
    return Html(f"<{tag}{given}>{''.join(map(escape, content))}</{tag}>")


def joined(parts: Iterable[str]) -> Html:
    """The parts one after the other."""
    return Html("".join(map(escape, parts)))


def table(head: Sequence[str], body: Iterable[Sequence[str]]) -> Html:
    """A table that scrolls inside itself on a narrow screen, with the keyboard too."""
    return environment("rovrl.output").get_template("parts.html").module.table(head, body)  # pyright: ignore


def page(title: str, style: str, body: Iterable[str]) -> str:
    """The whole document of a title and the parts of its body; `style` is CSS of our own, not text of a user."""
    return render("parts_page.html", "rovrl.output", style=style, title=title, body=list(body))
