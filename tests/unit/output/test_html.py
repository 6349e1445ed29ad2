"""Pages: what is escaped, and what a page may load."""

from html.parser import HTMLParser

from rovrl.output.html import Html, element, html, joined, page, table

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


def test_text_is_escaped_wherever_it_enters():
    made = page(NASTY, "", [NASTY, element("p", NASTY, title=NASTY), table([NASTY], [[NASTY]]), joined([NASTY])])
    read = Reader(made)
    assert "script" not in {tag for tag, _ in read.tags}
    assert read.texts.count(NASTY) + sum(text.strip() == NASTY for text in read.texts if text != NASTY) == 6
    assert ("p", {"title": NASTY}) in read.tags


def test_html_is_not_escaped_twice():
    assert html(html("<")) == "&lt;"
    assert table(["a"], [[Html("<b>x</b>")]]).count("<b>x</b>") == 1
    assert element("p", element("b", "<")) == "<p><b>&lt;</b></p>"


def test_an_empty_attribute_is_left_out():
    assert element("p", "x", class_="") == "<p>x</p>"
    assert element("p", "x", class_="note") == '<p class="note">x</p>'


def test_a_page_may_load_nothing():
    tags = Reader(page("t", "p{}", ["x"])).tags
    policy = next(a["content"] for tag, a in tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")
    assert "script-src" not in policy
    assert not [a for _, a in tags if "src" in a or "href" in a]
