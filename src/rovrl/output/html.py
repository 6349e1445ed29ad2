"""HTML in one file that needs no network: text is escaped unless it says that it is HTML already."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""What a page may load or run: nothing; its style stands in it."""


class Html(str):
    """Text that is HTML already; every other text is escaped where it enters a page."""


def html(text: str) -> Html:
    """`text` as HTML: escaped, quotes included, unless it is `Html`."""
    return text if isinstance(text, Html) else Html(escape(text))


def element(tag: str, *content: str, **attributes: str) -> Html:
    """<tag attributes>content</tag>; an attribute `class_` is `class`, and one that is empty is left out."""
    given = "".join(f' {name.rstrip("_")}="{escape(value)}"' for name, value in attributes.items() if value)
    return Html(f"<{tag}{given}>{''.join(map(html, content))}</{tag}>")


def joined(parts: Iterable[str]) -> Html:
    """The parts one after the other."""
    return Html("".join(map(html, parts)))


def table(head: Sequence[str], body: Iterable[Sequence[str]]) -> Html:
    """A table that scrolls inside itself on a narrow screen, with the keyboard too."""
    top = element("thead", element("tr", *(element("th", word) for word in head)))
    rows = (element("tr", *(element("td", cell) for cell in row)) for row in body)
    return element("div", element("table", top, element("tbody", *rows)), class_="scroll", tabindex="0")


def page(title: str, style: str, body: Iterable[str]) -> str:
    """The whole document; `style` is CSS of our own, not text of a user."""
    head = (
        element("title", title),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        Html('<meta name="viewport" content="width=device-width,initial-scale=1">'),
        Html(f"<style>{style}</style>"),
    )
    lines = ["<!doctype html>", '<html lang="en"><head><meta charset="utf-8">', *head, "</head><body>"]
    return "\n".join([*lines, *map(html, body), "</body></html>", ""])
