"""The two channels where an engine's own settings have no place for them: from the environment."""

from __future__ import annotations

import os
from typing import NamedTuple, TypeVar

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
