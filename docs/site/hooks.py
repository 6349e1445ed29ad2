"""What mkdocs does beyond its own: README as the first page, the API reference, equations as MathML, llms.txt.

Links that leave docs/ (to recipes, sources, the licence) lead to the repository. Nothing is loaded from another host.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
REPOSITORY = "https://github.com/rovrl/rovrl/blob/main"
MATH = re.compile(r"^```math\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
PICTURE = re.compile(r"(!\[[^\]]*\]\()\.\./([^)\s]+)")
"""A picture that lies outside docs/: it comes along, under pictures/."""
PAGES = ("reference.md", "gallery.md", "notebooks.md")
"""Pages that make sense on the site only; their sources lie beside this file."""


def on_files(files: Any, config: Any) -> Any:
    """The files of docs/, with the pages that are made here."""
    made = {"index.md": _from_root((ROOT / "README.md").read_text())}
    made |= {name: (HERE / name).read_text() for name in PAGES}
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    shown = {found[2] for page in (ROOT / "docs").glob("*.md") for found in PICTURE.finditer(page.read_text())}
    for path in sorted(shown):
        files.append(File.generated(config, f"pictures/{path}", abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """The page with its equations as MathML, and links that leave docs/ leading to the repository."""
    with_math = MATH.sub(lambda found: convert(" ".join(found[1].split()), display="block"), markdown)
    with_math = PICTURE.sub(r"\1pictures/\2", with_math)
    return LINK.sub(lambda found: found[1] + _outside(found[2]) + found[3], with_math)


def on_post_build(config: Any) -> None:
    """Writes llms.txt: every page with its address, its title and its first sentence, for readers that are programs."""
    lines = ["# rovrl", "", f"> {config['site_description']}", ""]
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = path.read_text()
        title = next(line.lstrip("# ") for line in text.splitlines() if line.startswith("# "))
        body = re.sub(r"^(#.*|```.*?```|!\[.*|\s{4}.*)$", "", text, flags=re.MULTILINE | re.DOTALL)
        first = " ".join(next((part for part in body.split("\n\n") if part.strip()), "").split())[:200]
        name = "README.md" if path.name == "README.md" else f"docs/{path.name}"
        lines.append(f"- [{title}]({REPOSITORY}/{name}): {first}")
    (Path(config["site_dir"]) / "llms.txt").write_text("\n".join(lines) + "\n")


def _from_root(text: str) -> str:
    """README as a page of docs/: its links to docs/ stay inside; all others, notebooks too, lead to the repository."""

    def moved(found: re.Match[str]) -> str:
        target = found[2]
        if target.startswith("docs/") and not target.endswith(".ipynb"):
            return found[1] + target.removeprefix("docs/") + found[3]
        if "://" in target or target.startswith("#"):
            return found[0]
        return f"{found[1]}{REPOSITORY}/{target}{found[3]}"

    return LINK.sub(moved, text)


def _outside(target: str) -> str:
    return f"{REPOSITORY}/{target.removeprefix('../')}" if target.startswith("../") else target
