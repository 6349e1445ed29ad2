"""Whether an engine is installed in a version that was tested: a sentence with the command that helps, if not."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from packaging.version import Version

from rovrl.errors import RovrlError


def check_engine(package: str, tested: tuple[str, str], *others: str) -> str:
    """The installed version; a RovrlError if there is none, or one outside `tested`: from the first up to, not including, the
    second. `others` are packages to be installed with it."""
    first, beyond = tested
    wanted = " ".join([f"pip install '{package}>={first},<{beyond}'", *others])
    try:
        installed = version(package)
    except PackageNotFoundError:
        raise RovrlError(f"{package} is not installed in this environment: {wanted}") from None
    if not Version(first) <= Version(installed) < Version(beyond):
        raise RovrlError(
            f"{package} {installed} is installed, and rovrl is tested with {first} up to (not including) {beyond}: {wanted}"
        )
    return installed
