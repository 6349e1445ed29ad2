"""Builds the documentation site into site/: mkdocs with broken links as errors, then the gallery's pages."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import random
import shutil
import sys
import tempfile
from pathlib import Path

from mkdocs.commands.build import build
from mkdocs.config import load_config

from rovrl.cli import main as rovrl

ROOT = Path(__file__).parents[2]


def rollouts(path: Path) -> None:
    """A dump as a trainer writes it: 24 steps of 8 prompts with 16 responses, one reward in fifty off by 20 to 60."""
    draw = random.Random(0)
    with path.open("w") as file:
        for step in range(24):
            for prompt in range(8):
                offset = draw.gauss(0, 1)
                for _ in range(16):
                    right = draw.random() < 0.5
                    reward = offset + 0.33 * right + draw.gauss(0, 0.05)
                    if draw.random() < 0.02:
                        reward += draw.choice((-1, 1)) * draw.uniform(20, 60)
                    row = {
                        "step": step,
                        "prompt": f"{step}.{prompt}",
                        "completion": "right" if right else "wrong",
                        "reward": reward,
                    }
                    file.write(json.dumps(row) + "\n")


def gallery(site: Path) -> None:
    """The pages of `rovrl report` and `rovrl audit`, made now, and the kept one of `rovrl train`, which takes minutes."""
    place = site / "gallery"
    place.mkdir(exist_ok=True)
    shutil.copyfile(Path(__file__).parent / "training.html", place / "training.html")
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        rollouts(Path(folder) / "rollouts.jsonl")
        with contextlib.chdir(folder):  # the page names its input as it was given
            status = rovrl(["audit", "rollouts.jsonl", "--out", "."])
        if status != 1:
            raise SystemExit(f"the gallery's audit ended with {status}, not with the findings that it is to show")
        (place / "audit.html").write_text((Path(folder) / "audit.html").read_text())
        if rovrl(["report", "--results", str(ROOT / "results" / "paper"), "--out", str(place / "report.html")]) == 2:
            raise SystemExit("the gallery's report failed")


if __name__ == "__main__":
    where = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT / "site"
    # a broken link is named before it stops the build
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(where)))
    gallery(where)
    print(f"the site is in {where}; to read it with its search: python -m http.server --directory {where}")
