"""Planted corruption of rewards, seeded and labelled: what was done to which response is returned with the rewards.

Where and how hard a corruption strikes is drawn before the rewards are looked at, so two methods that see different
responses get the same corruption at the same positions.

    spikes:rate=0.1,size=16             a response's reward is moved by +-size
    spikes:rate=0.1,size=16,decades=2   sizes from 0.16 to 16, evenly on a logarithmic scale
    spikes:rate=0.1,clustering=0.3      each prompt has a rate of its own: 0.1 on average, some near 0, some high
    heavy_tails:rate=1,size=1,freedom=2 Student-t noise is added
    failures:rate=0.05,value=nan        the scorer fails: nan, inf, -inf
    shift:rate=0.2,share=0.5,size=4     part of a group is moved together (a coherent failure)
    flips:rate=0.1                      right is scored as wrong and wrong as right

Sizes are in units of the reward's global standard deviation where that is known (`unit`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from rovrl.errors import RovrlError, did_you_mean

Rewards = np.ndarray
Sign = Literal["both", "up", "down"]


class Contaminated(NamedTuple):
    """Rewards after corruption, and per response what was done to it ("" = nothing)."""

    rewards: Rewards
    labels: list[str]


@dataclass(frozen=True)
class Spikes:
    """Each response is hit with probability `rate`; its reward moves by `size` units, up or down.

    With `decades` above 0 the sizes vary, log-uniform between size / 10^decades and size. With `clustering` above 0 faults
    depend on the prompt: each group draws its rate from the beta distribution with mean `rate` whose responses have that
    intraclass correlation.
    """

    rate: float = 0.1
    size: float = 16.0
    sign: Sign = "both"
    decades: float = 0.0
    clustering: float = 0.0
    before_reward: ClassVar[bool] = False

    def __call__(self, rewards: Rewards, groups: np.ndarray, rng: np.random.Generator, unit: float) -> Contaminated:
        """Rewards with spikes, labelled spike+ and spike-."""
        chance, up = rng.random(rewards.size), _directions(self.sign, rewards.size, rng)
        size = self.size * unit * 10 ** (-self.decades * rng.random(rewards.size))
        hit = chance < self._rates(groups, rng)
        moved = np.where(hit, rewards + np.where(up, 1.0, -1.0) * size, rewards)
        return Contaminated(moved, _labels(hit, np.where(up, "spike+", "spike-")))

    def _rates(self, groups: np.ndarray, rng: np.random.Generator) -> np.ndarray | float:
        """The rate of each response's group."""
        if not self.clustering or self.rate in (0.0, 1.0):
            return self.rate
        group = np.unique(groups, return_inverse=True)[1].reshape(-1)
        count, weight = int(group.max(initial=-1)) + 1, 1 / self.clustering - 1
        if not weight:  # all or none of a group
            return (rng.random(count) < self.rate).astype(float)[group]
        return rng.beta(self.rate * weight, (1 - self.rate) * weight, count)[group]


@dataclass(frozen=True)
class HeavyTails:
    """Each response is hit with probability `rate`; Student-t noise of scale `size` units is added."""

    rate: float = 1.0
    size: float = 1.0
    freedom: float = 2.0
    before_reward: ClassVar[bool] = False

    def __call__(self, rewards: Rewards, groups: np.ndarray, rng: np.random.Generator, unit: float) -> Contaminated:
        """Rewards with heavy-tailed noise, labelled heavy_tail."""
        hit, noise = rng.random(rewards.size) < self.rate, rng.standard_t(self.freedom, rewards.size)
        return Contaminated(
            np.where(hit, rewards + noise * self.size * unit, rewards), _labels(hit, np.array("heavy_tail"))
        )


@dataclass(frozen=True)
class Failures:
    """Each response is hit with probability `rate`; its reward becomes `value`, which does not count as a score."""

    rate: float = 0.05
    value: Literal["nan", "inf", "-inf"] = "nan"
    before_reward: ClassVar[bool] = False

    def __call__(self, rewards: Rewards, groups: np.ndarray, rng: np.random.Generator, unit: float) -> Contaminated:
        """Rewards with non-finite ones among them, labelled failure."""
        hit = rng.random(rewards.size) < self.rate
        return Contaminated(np.where(hit, float(self.value), rewards), _labels(hit, np.array("failure")))


@dataclass(frozen=True)
class Shift:
    """Each group is hit with probability `rate`; `share` of its responses move together by `size` units."""

    rate: float = 0.2
    share: float = 0.5
    size: float = 4.0
    sign: Sign = "both"
    before_reward: ClassVar[bool] = False

    def __call__(self, rewards: Rewards, groups: np.ndarray, rng: np.random.Generator, unit: float) -> Contaminated:
        """Rewards with coherent shifts, labelled shift+ and shift-."""
        group = np.unique(groups, return_inverse=True)[1].reshape(-1)
        count = int(group.max(initial=-1)) + 1
        struck, up = rng.random(count) < self.rate, _directions(self.sign, count, rng)
        order = rng.random(rewards.size)
        rank = np.array([(order[group == g] < value).sum() for g, value in zip(group, order, strict=True)])
        inside = rank < np.round(self.share * np.bincount(group, minlength=count))[group]
        hit, up = struck[group] & inside, up[group]
        moved = np.where(hit, rewards + np.where(up, 1.0, -1.0) * self.size * unit, rewards)
        return Contaminated(moved, _labels(hit, np.where(up, "shift+", "shift-")))


@dataclass(frozen=True)
class Flips:
    """Each response is hit with probability `rate`; its reward is reflected between `low` and `high`.

    For verdicts of 0 and 1, which is where the embedded job applies it, that is 1 - verdict.
    """

    rate: float = 0.1
    low: float = 0.0
    high: float = 1.0
    before_reward: ClassVar[bool] = True

    def __call__(self, rewards: Rewards, groups: np.ndarray, rng: np.random.Generator, unit: float) -> Contaminated:
        """Rewards with some reflected, labelled flip."""
        hit = rng.random(rewards.size) < self.rate
        return Contaminated(np.where(hit, self.low + self.high - rewards, rewards), _labels(hit, np.array("flip")))


Contamination = Spikes | HeavyTails | Failures | Shift | Flips
CONTAMINATIONS: Mapping[str, Callable[..., Contamination]] = {
    "spikes": Spikes,
    "heavy_tails": HeavyTails,
    "failures": Failures,
    "shift": Shift,
    "flips": Flips,
}
_WORDS = {"sign": ("both", "up", "down"), "value": ("nan", "inf", "-inf")}
_ALLOWED: Mapping[str, tuple[str, Callable[[float], bool]]] = {
    **dict.fromkeys(("rate", "share", "clustering"), ("between 0 and 1", lambda x: 0 <= x <= 1)),
    "freedom": ("above 0", lambda x: x > 0),
    "decades": ("0 or above", lambda x: x >= 0),
}
"""What a number may be, in words and as a test; any finite number where nothing is said."""


def parse(text: str) -> Contamination:
    """The contamination written as "kind" or "kind:field=value,field=value"."""
    kind, _, settings = text.partition(":")
    if kind not in CONTAMINATIONS:
        near = did_you_mean(kind, CONTAMINATIONS)
        raise RovrlError(f"contamination {kind!r} is not known{near}; the kinds are {', '.join(CONTAMINATIONS)}")
    known = [f.name for f in fields(CONTAMINATIONS[kind])]  # pyright: ignore[reportArgumentType]
    chosen: dict[str, float | str] = {}
    for part in filter(None, settings.split(",")):
        name, _, value = part.partition("=")
        if name not in known:
            near = did_you_mean(name, known)
            raise RovrlError(f"contamination {kind!r} has no setting {name!r}{near}; it has {', '.join(known)}")
        chosen[name] = _value(kind, name, value)
    return CONTAMINATIONS[kind](**chosen)


def contaminate(
    rewards: np.ndarray, groups: np.ndarray, plan: Sequence[Contamination], rng: np.random.Generator, unit: float = 1.0
) -> Contaminated:
    """Rewards after every contamination of `plan` in turn; the labels of one response are joined by a comma."""
    current, labels = np.asarray(rewards, dtype=np.float64), [""] * len(rewards)
    for contamination in plan:
        current, added = contamination(current, np.asarray(groups), rng, unit)
        labels = [",".join(filter(None, pair)) for pair in zip(labels, added, strict=True)]
    return Contaminated(current, labels)


def _directions(sign: Sign, count: int, rng: np.random.Generator) -> np.ndarray:
    coin = rng.random(count) < 0.5  # drawn for every sign, so that one-sided spikes strike the same responses
    return {"both": coin, "up": np.ones(count, bool), "down": np.zeros(count, bool)}[sign]


def _labels(hit: np.ndarray, words: np.ndarray) -> list[str]:
    return np.where(hit, words, "").tolist()


def _value(kind: str, name: str, text: str) -> float | str:
    if name in _WORDS:
        if text not in _WORDS[name]:
            raise RovrlError(f"{kind}: {name} must be one of {', '.join(_WORDS[name])}, not {text!r}")
        return text
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    allowed, inside = _ALLOWED.get(name, ("a finite number", math.isfinite))
    if not (math.isfinite(number) and inside(number)):
        raise RovrlError(f"{kind}: {name} must be {allowed}, not {text!r}")
    return number
