"""The two channels where an engine's own settings have no place for them: from the environment."""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

from rovrl.config import RatioChannel, RewardChannel
from rovrl.errors import RovrlError

REWARD, RATIO = "ROVRL_REWARD_CHANNEL", "ROVRL_RATIO_CHANNEL"


class Channels(NamedTuple):
    """Both channels; None is switched off."""

    reward: RewardChannel | None
    ratio: RatioChannel | None


def channels() -> Channels:
    """What the environment says: JSON with a channel's fields, or none; by default the paper's settings."""
    reward, ratio = _fields(REWARD), _fields(RATIO)
    try:
        return Channels(
            None if reward is None else RewardChannel.from_dict(reward),
            None if ratio is None else RatioChannel.from_dict(ratio),
        )
    except ValueError as error:
        raise RovrlError(f"{REWARD} or {RATIO}: {error}") from None


def _fields(name: str) -> dict[str, Any] | None:
    text = os.environ.get(name, "").strip()
    if text.lower() in ("none", "null", "off"):
        return None
    try:
        found = json.loads(text or "{}")
    except json.JSONDecodeError:
        found = text
    if not isinstance(found, dict):
        raise RovrlError(f"{name} must be none or JSON such as '{{\"num_blocks\": 3}}', not {text!r}")
    return found
