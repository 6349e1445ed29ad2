"""The one exception a user is meant to read, and the check for optional packages."""

import importlib
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
