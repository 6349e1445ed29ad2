"""A page in a real Chromium, watched: what it asked for, what it said, what it refused."""

import os
import shutil

import pytest

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
IN_A_BROWSER = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None and not os.environ.get("CI"), reason="no Chromium found"),
]
"""The marks of a module of tests that need one."""
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}


class Watched:
    """A page, and everything it did that it should not have done."""

    def __init__(self, browser, html, **options):
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.requests, self.refused, self.errors, self.dialogs = [], [], [], []
        self.page.on("requestfailed", lambda request: self.refused.append((request.url, request.failure)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.dialogs.append(dialog.message), dialog.dismiss()))
        self.page.goto(html.as_uri())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()
