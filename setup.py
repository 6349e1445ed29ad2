"""The long description: README with absolute links, so that pages and pictures are found from the package index too."""

import re
from pathlib import Path

from setuptools import setup

PAGES = "https://github.com/rovrl/rovrl/blob/main/"
FILES = "https://raw.githubusercontent.com/rovrl/rovrl/main/"


def absolute(found: re.Match) -> str:
    """A link with the repository's address before it; a picture with the address of its bytes."""
    return f"{found[1]}{FILES if found[1].startswith('!') else PAGES}{found[2]}"


README = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
setup(
    long_description=re.sub(r"(!?\[[^\]]*\]\()(?!https?://|#)([^)\s]+)", absolute, README),
    long_description_content_type="text/markdown",
)
