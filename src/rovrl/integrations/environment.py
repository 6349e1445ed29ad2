"""What engines without a config of ours need: both channels from the environment, and a check of the installed version."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple, TypeVar

from packaging.version import Version

from rovrl.config import RatioChannel, RewardChannel
from rovrl.errors import RovrlError

C = TypeVar("C", RewardChannel, RatioChannel)
REWARD, RATIO = "ROVRL_REWARD_CHANNEL", "ROVRL_RATIO_CHANNEL"


class Channels(NamedTuple):
    """Both channels; None is switched off."""

    reward: RewardChannel | None
    ratio: RatioChannel | None


def channels() -> Channels:
    """What the environment says: a preset's name, JSON with a channel's fields, or none; by default the paper's settings."""
    return Channels(_channel(REWARD, RewardChannel), _channel(RATIO, RatioChannel))


def _channel(name: str, kind: type[C]) -> C | None:
    try:
        found = kind.fields_of(name, os.environ.get(name, "").strip() or "{}")
        return None if found is None else kind.from_dict(found)
    except ValueError as error:
        text = str(error)
        raise RovrlError(text if text.startswith(name) else f"{name}: {text}") from None


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
