"""Settings of the two channels and the rollout correction: each field is a word, the paper's symbol and default beside it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Literal, Self, TypeVar

from rovrl.errors import did_you_mean
from rovrl.robust.settings import SoftSettings

ADAPTIVE = "adaptive"
CLIP_LOW, CLIP_HIGH = 3e-4, 4e-4
"""GSPO's band of the sequence weight: [0.9997, 1.0004]."""
GRPO_EPSILON = 1e-6
"""Added to GRPO's standard deviation, and under the root of the center-only variant (sec:reward_contamination)."""

C = TypeVar("C", bound="_Channel")


OFF = ("none", "null", "off")
"""What a text says that switches a channel off."""


class _Channel:
    """What both channels share: presets by name, building from a mapping with a clear refusal of unknown fields."""

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Name -> the fields that differ from the defaults."""

    @classmethod
    def preset(cls: type[C], name: str) -> C:
        """The channel of that name; any other is a ValueError with those that there are."""
        if name not in cls.PRESETS:
            known = " or ".join(f'"{each}"' for each in cls.PRESETS)
            raise ValueError(f"a {cls.__name__} by name is {known}, not {name!r}{did_you_mean(name, cls.PRESETS)}")
        return cls(**cls.PRESETS[name])

    @classmethod
    def of(cls: type[C], value: C | str) -> C:
        """`value` if it is a channel of this kind, or the preset of that name; else a ValueError that says what to write."""
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            return cls.preset(value)
        way = f"{cls.__name__}(**settings)" if isinstance(value, Mapping) else f"channel={cls.__name__}(...)"
        raise ValueError(f"channel must be a {cls.__name__}, not a {type(value).__name__}: write {way}")

    @classmethod
    def fields_of(cls, name: str, value: Any) -> Any:
        """What a setting called `name` says, as the fields that `from_dict` takes; None: the channel is off.

        A channel, a mapping of its fields, or a text: a preset's name, JSON of a mapping, or one of `OFF`.
        """
        if isinstance(value, cls):
            return value.to_dict()
        if not isinstance(value, str):
            return value
        if value.strip().lower() in OFF:
            return None
        if value in cls.PRESETS:
            return dict(cls.PRESETS[value])
        try:
            found = json.loads(value)
        except json.JSONDecodeError:
            found = None
        if not isinstance(found, dict):
            named = ", ".join(cls.PRESETS)
            raise ValueError(f"{name} must be none, {named}, or JSON such as '{{\"num_blocks\": 3}}', not {value!r}")
        return found

    @classmethod
    def from_dict(cls: type[C], settings: Mapping[str, Any]) -> C:
        """The channel with `settings` over its defaults, or over those of `settings["preset"]`.

        An unknown field is a ValueError that lists the known ones.
        """
        if "preset" in settings:
            base = cls.preset(str(settings["preset"])).to_dict()
            settings = base | {name: value for name, value in settings.items() if name != "preset"}
        known = [f.name for f in fields(cls)]  # pyright: ignore[reportArgumentType]
        unknown = sorted(str(key) for key in settings if key not in known)
        if unknown:
            hint = did_you_mean(unknown[0], known)
            raise ValueError(
                f"{cls.__name__} has no field {', '.join(unknown)}{hint}; its fields are {', '.join(known)}"
            )
        return cls(**settings)

    def to_dict(self) -> dict[str, Any]:
        """All fields as a plain dict, the inverse of `from_dict`."""
        return asdict(self)  # pyright: ignore[reportArgumentType]

    def _require(self, name: str, allowed: str, ok: bool) -> None:
        if not ok:
            raise ValueError(f"{type(self).__name__}.{name} must be {allowed}, not {getattr(self, name)!r}")

    def _count(self, name: str, least: int) -> None:
        value = getattr(self, name)
        ok = isinstance(value, int) and not isinstance(value, bool) and value >= least
        self._require(name, f"a whole number of at least {least}", ok)

    def _positive(self, name: str) -> None:
        self._require(name, "a finite positive number", _is_number(getattr(self, name)) and getattr(self, name) > 0)

    def _non_negative(self, name: str) -> None:
        self._require(
            name, "a finite number of at least 0", _is_number(getattr(self, name)) and getattr(self, name) >= 0
        )

    def _scale_limits(self) -> None:
        self._positive("scale_floor")
        self._positive("scale_cap")
        floor, cap = self.scale_floor, self.scale_cap  # pyright: ignore[reportAttributeAccessIssue]
        self._require("scale_cap", f"at least scale_floor ({floor!r})", cap >= floor)


def _references() -> tuple[str, ...]:
    from rovrl.robust.location import REFERENCES  # brings torch, which settings alone do not need

    return tuple(REFERENCES)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


@dataclass(frozen=True)
class RewardChannel(_Channel):
    """Rewards -> reference -> bounded credit (eq:rovr, eq:credit_advantage, alg:rovr_gspo)."""

    PRESETS = {  # noqa: RUF012
        "paper": {},
        "adaptive": {"credit_bound": ADAPTIVE, "credit_floor": ADAPTIVE},
        "guarded": {"credit_bound": ADAPTIVE, "credit_floor": ADAPTIVE, "faults": "reject"},
    }

    num_blocks: int = 3
    """B, blocks of the reward reference."""
    arbitrary_blocks: int | None = 1
    """q, the declared budget of blocks that may be arbitrary; None = undeclared, which means the global-M fallback."""
    replaced_per_block: int | None = 1
    """s, the declared budget of replacements inside a usable block; None = undeclared."""
    failure_unit: Literal["response"] | None = "response"
    """What fails as a unit; None = undeclared, which means the global-M fallback."""
    partition: Literal["random", "contiguous"] = "random"
    """How responses are assigned to blocks; never from the data."""
    num_levels: int = 9
    """K, quantile levels of the outer correction."""
    score_width: float = 1.0
    """c, the width of the score function."""
    credit_bound: float | Literal["adaptive"] = 1.0
    """kappa, the bound of the credit map; "adaptive": twice the lagged spread within groups."""
    credit_floor: float | Literal["adaptive"] = 1e-3
    """s_min, the floor of the credit scale; "adaptive": the lagged spread within groups."""
    curvature_floor: float = 1e-6
    """a_min, in the sandwich scale."""
    scale_floor: float = 1e-6
    """nu_min."""
    scale_cap: float = 10.0
    """nu_max."""
    scale_source: Literal["auto", "local", "lagged"] | float = "auto"
    """Where nu comes from: "local" sandwich, "lagged" running scale, a positive number (a pilot);
    "auto" is local unless a block has fewer than four members, then lagged."""
    tie_tolerance: float = 1e-9
    """epsilon_tie, relative to the pooled scale."""
    reference: str = "rovr"
    """Which estimator of `rovrl.REFERENCES` the credit is measured from; nu and its source matter for "rovr" alone."""
    faults: Literal["bound", "reject"] = "bound"
    """"bound": every finite reward counts, as in the paper; "reject": rewards shown to be faults (docs/faults.md) are left
    out of every statistic, like a NaN, and get advantage 0."""

    @classmethod
    def paper(cls) -> Self:
        """The paper's settings, which are the defaults."""
        return cls.preset("paper")

    @classmethod
    def adaptive(cls) -> Self:
        """The credit in the unit of the rewards (docs/adaptive.md)."""
        return cls.preset("adaptive")

    @classmethod
    def guarded(cls) -> Self:
        """Adaptive, and responses shown to be faults are left out (docs/faults.md)."""
        return cls.preset("guarded")

    def __post_init__(self) -> None:
        self._count("num_blocks", 1)
        for name in ("arbitrary_blocks", "replaced_per_block"):
            if getattr(self, name) is not None:
                self._count(name, 0)
        self._require("failure_unit", '"response" or None', self.failure_unit in ("response", None))
        self._require("partition", '"random" or "contiguous"', self.partition in ("random", "contiguous"))
        self._count("num_levels", 1)
        for name in ("score_width", "curvature_floor"):
            self._positive(name)
        for name in ("credit_bound", "credit_floor"):
            value = getattr(self, name)
            allowed = 'a finite positive number or "adaptive"'
            self._require(name, allowed, value == ADAPTIVE or (_is_number(value) and value > 0))
        self._scale_limits()
        source = self.scale_source
        named = isinstance(source, str) and source in ("auto", "local", "lagged")
        allowed = '"auto", "local", "lagged" or a finite positive number'
        self._require("scale_source", allowed, named or (_is_number(source) and source > 0))  # pyright: ignore[reportOperatorIssue]
        self._non_negative("tie_tolerance")
        self._require("faults", '"bound" or "reject"', self.faults in ("bound", "reject"))
        if self.reference != "rovr":  # checked only then: the settings alone need no torch
            self._require("reference", f"one of {', '.join(_references())}", self.reference in _references())


@dataclass(frozen=True)
class RatioChannel(SoftSettings, _Channel):
    """Token log-ratios -> log sequence weight by SoftRoVR (eq:softrovr_ratio); elements are tokens, rows are responses."""

    PRESETS = {"paper": {}}  # noqa: RUF012

    @classmethod
    def paper(cls) -> Self:
        """The paper's settings, which are the defaults."""
        return cls.preset("paper")

    def __post_init__(self) -> None:
        for name in ("num_blocks", "min_block", "num_levels", "iterations"):
            self._count(name, 1)
        for name in ("score_width", "temperature", "median_width", "curvature_floor"):
            self._positive(name)
        self._scale_limits()
        self._non_negative("regularizer")
        self._require("gradient", '"implicit" or "unrolled"', self.gradient in ("implicit", "unrolled"))
        self._require("units", '"absolute" or "robust"', self.units in ("absolute", "robust"))


ROLLOUT_STATISTICS = ("token", "sum", "mean", "soft_rovr")
ROLLOUT_TREATMENTS = ("truncate", "mask", "reject")


@dataclass(frozen=True)
class RolloutCorrection(_Channel):
    """log π_old - log π_rollout of every token -> weights of the loss, where another engine or precision sampled.

    Not in the paper; docs/rollouts.md. `rovrl.ROLLOUT_CORRECTIONS` holds those that have a name.
    """

    statistic: Literal["token", "sum", "mean", "soft_rovr"] = "soft_rovr"
    """Whose exponential is the ratio ρ: each token's log-ratio, their sum, their mean (ρ is a geometric mean), SoftRoVR."""
    treatment: Literal["truncate", "mask", "reject"] = "truncate"
    """The weight: ρ clipped to [low, high]; ρ inside and 0 outside; 1 inside and 0 outside."""
    low: float = 0.0
    """The least ratio that is trusted."""
    high: float = 2.0
    """The largest ratio that is trusted."""
    ratio_channel: RatioChannel = field(default_factory=RatioChannel)
    """SoftRoVR's settings; a mapping of its fields will do."""

    def __post_init__(self) -> None:
        if isinstance(self.ratio_channel, Mapping):
            object.__setattr__(self, "ratio_channel", RatioChannel.from_dict(self.ratio_channel))
        self._require("ratio_channel", "a RatioChannel", isinstance(self.ratio_channel, RatioChannel))
        for name, words in (("statistic", ROLLOUT_STATISTICS), ("treatment", ROLLOUT_TREATMENTS)):
            self._require(name, f"one of {', '.join(words)}", getattr(self, name) in words)
        self._require(
            "low", "between 0 and 1, the ratio of engines that agree", _is_number(self.low) and 0 <= self.low <= 1
        )
        self._require("high", "a finite number of at least 1", _is_number(self.high) and self.high >= 1)
