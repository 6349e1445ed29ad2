"""The one exception a user is meant to read, the check for optional packages, and hints: names, lines, pages."""

import difflib
import importlib
import re
import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType


class RovrlError(Exception):
    """A sentence for the user: what was wrong, where, what to do. The command line prints it and exits with 2."""


def require(module: str, extra: str) -> ModuleType:
    """The imported `module`, or a `RovrlError` that names the extra which brings it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.split(".")[0] != module.split(".")[0]:
            raise
        raise RovrlError(
            f"this needs the package {module.split('.')[0]!r}, which is not installed: pip install 'rovrl[{extra}]'"
        ) from None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """ "; did you mean a or b?" with the known names nearest to `word`; "" if none is near."""
    near = difflib.get_close_matches(word, list(known), n=3)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def place_of(error: BaseException) -> str:
    """ ", at FILE:LINE in FUNCTION": the innermost place in code that is neither Python's own nor an installed package's.

    What calls a user's function here, in `integrations` and `evaluate`, is not such a place either.
    """
    installed = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})
    callers = tuple(str(Path(__file__).parent / room) for room in ("integrations", "evaluate"))
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not frame.filename.startswith((*installed, *callers, "<"))]
    return f", at {theirs[-1].filename}:{theirs[-1].lineno} in {theirs[-1].name}" if theirs else ""


def pages() -> Path | None:
    """Where docs/, recipes/ and examples/ lie: the clone, or what the wheel brought; None if neither is there."""
    places = (Path(__file__).parents[2], Path(sysconfig.get_path("data")) / "share" / "rovrl")
    return next((place for place in places if (place / "docs" / "trl.md").is_file()), None)


def with_places(sentence: str) -> str:
    """The sentence with "docs/x.md" as a path that can be opened from here; other words stay as they are."""
    place = pages()
    if place is None:
        return sentence

    def found(name: re.Match[str]) -> str:
        elsewhere = not Path(name[0]).exists() and (place / name[0]).exists()
        return str(place / name[0]) if elsewhere else name[0]

    return re.sub(r"(?<![\w/.-])(?:docs|recipes|examples)/[\w/.-]*\w", found, sentence)
