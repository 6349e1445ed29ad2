"""The documents hang together: every relative link leads to a file, and every command they name exists."""

import re
from pathlib import Path

import pytest

from rovrl.cli import COMMANDS

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "recipes").rglob("*.md")])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file(document):
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", document.read_text())
    missing = [t for t in targets if "://" not in t and not (document.parent / t).exists()]
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_that_is_named_exists(document):
    named = set(re.findall(r"(?:^ {4}|`)rovrl ([a-z]+)", document.read_text(), re.MULTILINE))
    assert named - set(COMMANDS) == set()
