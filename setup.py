"""What pyproject.toml cannot say: README with absolute links as the long description, and the pages that messages name."""

import re
from collections import defaultdict
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
PAGES = "https://github.com/rovrl/rovrl/blob/main/"
FILES = "https://raw.githubusercontent.com/rovrl/rovrl/main/"
SHARED = ("docs/*.md", "docs/*.png", "examples/*.*", "recipes/**/*.*")


def absolute(found: re.Match) -> str:
    """A link with the repository's address before it; a picture with the address of its bytes."""
    return f"{found[1]}{FILES if found[1].startswith('!') else PAGES}{found[2]}"


def shared() -> list[tuple[str, list[str]]]:
    """docs/, examples/ and recipes/ below share/rovrl of the environment: `rovrl --help` says where that is."""
    places = defaultdict(list)
    for path in sorted(path for pattern in SHARED for path in ROOT.glob(pattern) if path.is_file()):
        if path.suffix != ".pyc":
            name = path.relative_to(ROOT)
            places[f"share/rovrl/{name.parent.as_posix()}"].append(name.as_posix())
    return list(places.items())


README = (ROOT / "README.md").read_text(encoding="utf-8")
setup(
    long_description=re.sub(r"(!?\[[^\]]*\]\()(?!https?://|#)([^)\s]+)", absolute, README),
    long_description_content_type="text/markdown",
    data_files=shared(),
)
