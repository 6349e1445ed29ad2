"""What a sceptical reader asks of the evidence, and the differences that answer it: the guarded settings minus another."""

from __future__ import annotations

from typing import NamedTuple

from rovrl_paper.lab.evidence.plan import (
    ADAPTIVE,
    ANOTHER_CLEAN,
    ANOTHER_SPIKED,
    BONUS,
    BY_PROMPT,
    CLEAN,
    FORTY_FIVE,
    GUARDED,
    RIVALS,
    RULE,
    SMALL,
    SPIKED,
    STRONGEST,
    THIRTY,
    TOLD,
    TOOLS_CLEAN,
    TOOLS_SPIKED,
    TOOLS_THIRTY,
    UNITS,
    VARIED,
    Setting,
)


class Other(NamedTuple):
    """What the guarded settings are compared with: a method in a setting."""

    setting: Setting
    method: str


class Question(NamedTuple):
    """Asked in words; answered by differences: the guarded settings in a setting minus another method, there or elsewhere."""

    asked: str
    answers: tuple[tuple[Setting, Other], ...]


def _there(setting: Setting, *methods: str) -> tuple[tuple[Setting, Other], ...]:
    return tuple((setting, Other(setting, method)) for method in methods)


def _each(settings: tuple[Setting, ...], *methods: str) -> tuple[tuple[Setting, Other], ...]:
    return tuple(pair for setting in settings for pair in _there(setting, *methods))


QUESTIONS = (
    Question("Is it better than the rivals under 10 % spikes?", _there(SPIKED, *RIVALS, "softrovr")),
    Question("Under 30 %?", _there(THIRTY, *RIVALS)),
    Question("Under 45 %, where nearly every other reward is wrong?", _there(FORTY_FIVE, *STRONGEST)),
    Question(
        "Could anyone do better? Beside the same settings that are told every fault:",
        _each((SPIKED, THIRTY, FORTY_FIVE, TOOLS_SPIKED, TOOLS_THIRTY), TOLD),
    ),
    Question(
        "What do the faults still cost: how far is it from its own clean run?",
        tuple((setting, Other(CLEAN, GUARDED)) for setting in (SPIKED, THIRTY, FORTY_FIVE)),
    ),
    Question(
        "Faulty rewards with it, or clean ones with GSPO?",
        tuple((setting, Other(CLEAN, "gspo")) for setting in (SPIKED, THIRTY)),
    ),
    Question(
        "What does it cost where nothing is wrong?",
        (*_there(CLEAN, "gspo", "softrovr", ADAPTIVE), *_there(TOOLS_CLEAN, ADAPTIVE)),
    ),
    Question(
        "Does it throw away rare right answers, or one of two data sets?",
        (*_there(BONUS, *STRONGEST), *_each((BONUS, UNITS), "gspo", "softrovr", ADAPTIVE)),
    ),
    Question("If the range is known, is a clamp not enough?", _there(RULE, "gspo-clamp", "softrovr-clamp", *STRONGEST)),
    Question(
        "And faults that are small, of every size, or tied to the prompt?",
        _each((SMALL, VARIED, BY_PROMPT), "winsor-softrovr", ADAPTIVE),
    ),
    Question("On another task?", _each((TOOLS_SPIKED, TOOLS_THIRTY, TOOLS_CLEAN), *STRONGEST, "gspo")),
    Question("From another warm-up?", _each((ANOTHER_SPIKED, ANOTHER_CLEAN), "winsor-softrovr", "gspo")),
)
