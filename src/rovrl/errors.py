"""The one exception a user is meant to read, the check for optional packages, and the hint at a mistyped name."""

import difflib
import importlib
from collections.abc import Iterable
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
