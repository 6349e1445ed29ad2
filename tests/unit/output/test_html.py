"""Pages: what is escaped, what a page may load, and that a page runs its own script alone."""

import base64
import hashlib
from html.parser import HTMLParser

import jinja2
import pytest

from rovrl.output.html import Html, element, joined, page, render, table

NASTY = "<script>alert('x')</script> & \"y\""


class Reader(HTMLParser):
    """The tags and texts of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def policy(self):
        return next(a["content"] for tag, a in self.tags if a.get("http-equiv") == "Content-Security-Policy")


def sha256(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_text_is_escaped_wherever_it_enters():
    read = Reader(
        page(NASTY, "", [NASTY, element("p", NASTY, title=NASTY), table([NASTY], [[NASTY]]), joined([NASTY])])
    )
    assert "script" not in {tag for tag, _ in read.tags}
    assert sum(text.strip() == NASTY for text in read.texts) == 6
    assert ("p", {"title": NASTY}) in read.tags


def test_html_is_not_escaped_twice():
    assert table(["a"], [[Html("<b>x</b>")]]).count("<b>x</b>") == 1
    assert element("p", element("b", "<")) == "<p><b>&lt;</b></p>"
    assert element("p", "x", class_="") == "<p>x</p>"


def test_a_name_that_the_template_does_not_get_is_an_error():
    with pytest.raises(jinja2.UndefinedError, match="title"):
        render("parts_page.html", "rovrl.output", body=[])


def test_a_page_may_load_nothing():
    read = Reader(page("t", "p{}", ["x"]))
    assert read.policy.startswith("default-src 'none'")
    assert "script-src" not in read.policy
    assert not [a for _, a in read.tags if "src" in a or "href" in a]


def test_a_page_with_a_script_runs_that_script_and_no_style_but_its_own():
    script = "if (1 < 2 && true) document.title = 'x';"
    read = Reader(render("base.html", "rovrl.output", script=script, style="p{}"))
    assert script in read.texts
    assert f"script-src {sha256(script)}" in read.policy
    style = next(text for text in read.texts if "--card" in text)
    assert f"style-src {sha256(style)};" in read.policy
