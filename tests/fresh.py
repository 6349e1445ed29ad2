"""An environment with a wheel and what its metadata asks for, and nothing else; its packages are links to the installed ones.

What pip would fetch is read off the metadata, so that an extra which forgets a package is found, at the price of a few links.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from collections import Counter
from email import message_from_bytes
from functools import cache
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def metadata(wheel: Path):
    """The wheel's METADATA, as a message: headers, and the long description as its payload."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_bytes(archive.read(name))


def needed(wheel: Path, extra: str) -> dict[str, Distribution]:
    """Every distribution that `pip install 'WHEEL[extra]'` would bring along, by name; the wheel's own is not among them."""
    own = metadata(wheel)
    requires = {canonicalize_name(own["Name"]): own.get_all("Requires-Dist")}
    found: dict[str, Distribution] = {}
    seen, waiting = set(), [(canonicalize_name(own["Name"]), frozenset({extra}))]
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        if name not in requires:
            found[name] = distribution(name)
            requires[name] = found[name].requires or []
        for line in requires[name]:
            requirement = Requirement(line)
            if requirement.marker is None or any(requirement.marker.evaluate({"extra": e}) for e in {"", *extras}):
                waiting.append((canonicalize_name(requirement.name), frozenset(requirement.extras)))
    return found


def files(each: Distribution) -> list[str]:
    """The files of a distribution, relative to site-packages; its scripts and caches are left out."""
    names = [line.rsplit(",", 2)[0].strip('"') for line in (each.read_text("RECORD") or "").splitlines()]
    return [name for name in names if not name.startswith(("../", "/", "__pycache__/"))]


@cache
def owners() -> dict[str, int]:
    """Top-level file or folder of site-packages -> how many distributions have something in it."""
    return Counter(top for each in distributions() for top in {name.partition("/")[0] for name in files(each)})


def link(packages: dict[str, Distribution], place: Path) -> Path:
    """`place`, which now holds links to the packages' files: a folder as a whole where it has one owner."""
    place.mkdir()
    for each in packages.values():
        tops = {name: name.partition("/")[0] for name in files(each)}
        for name in {top if owners()[top] == 1 else name for name, top in tops.items()}:
            target = place / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                target.symlink_to(Path(str(each.locate_file(name))).resolve())
    return place


def clean() -> dict[str, str]:
    """The environment's variables without those that would let a program see another rovrl."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ROVRL_"))}


class Fresh:
    """A virtual environment in which the wheel is installed, by pip; `run` gives it the packages of one extra."""

    def __init__(self, wheel: Path, place: Path) -> None:
        self.wheel, self.place = wheel, place
        venv.create(place / "env", symlinks=True, with_pip=False)
        self.python = place / "env" / "bin" / "python"
        words = ["--python", str(self.python), "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
        subprocess.run([sys.executable, "-m", "pip", *words], env=clean(), check=True, capture_output=True)

    def run(self, extra: str, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """A finished `python WORDS` that sees the wheel and what the extra ("" = none) brings."""
        packages = self.place / f"packages-{extra}"
        if not packages.exists():
            link(needed(self.wheel, extra), packages)
        environment = clean() | {"PYTHONPATH": str(packages), "HF_HOME": str(cwd / "hub"), "OMP_NUM_THREADS": "1"}
        command = [str(self.python), *words]
        return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=600)
