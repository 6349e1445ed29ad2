"""Every python block of the README, and every one of docs/ that shows its output, runs and prints what the page says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)


def examples(text):
    """(code, expected output or None) per python block; a ```text block right after one is its output."""
    blocks = list(BLOCK.finditer(text))
    out = []
    for this, following in zip(blocks, [*blocks[1:], None], strict=False):  # a page may have no block
        if this[1] == "python":
            adjacent = (
                following is not None and following[1] == "text" and not text[this.end() : following.start()].strip()
            )
            out.append((this[2], following[2] if adjacent else None))
    return out


SHOWN = [("README.md", *example) for example in examples((ROOT / "README.md").read_text())]
SHOWN += [
    (page.name, code, output)
    for page in sorted((ROOT / "docs").glob("*.md"))
    for code, output in examples(page.read_text())
    if output
]


@pytest.mark.slow
@pytest.mark.parametrize(("page", "code", "expected"), SHOWN, ids=[f"{page}-{i}" for i, (page, *_) in enumerate(SHOWN)])
def test_the_code_prints_what_the_page_says(page, code, expected, tmp_path):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr
    if expected is not None:
        lines = [line.rstrip() for line in done.stdout.strip().splitlines()]
        assert lines == [line.rstrip() for line in expected.strip().splitlines()]
