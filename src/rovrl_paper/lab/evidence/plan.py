"""What the sweeps run: settings (one world each), the tables that are read from their runs, and the sceptic's questions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from rovrl_paper.lab.job import SPIKES, Job
from rovrl_paper.lab.models.warmup import WarmUp
from rovrl_paper.lab.models.worlds import WORLDS

Pairs = tuple[tuple[str, str], ...]


class Setting(NamedTuple):
    """A world in which methods are compared: the directory of its runs, its name for people, its job."""

    name: str
    title: str
    job: Job


class Table(NamedTuple):
    """Methods side by side in one setting; the first is what the others are compared with."""

    setting: Setting
    methods: tuple[str, ...]
    seeds: int = 3
    pairs: Pairs = ()
    """Differences that a reader asks for besides those to the first method."""
    about: str = ""
    """What sets the table apart from another one of the same setting."""

    @property
    def title(self) -> str:
        """The table's heading."""
        return f"{self.setting.title}, {self.about}" if self.about else self.setting.title

    @property
    def figure(self) -> str:
        """The name of the file with its learning curves."""
        return "-".join(filter(None, (self.setting.name, self.about.split(" ")[0]))) + ".svg"


class Sweep(NamedTuple):
    """Stages of tables, run one after the other; where the repository keeps their results, and under which heading."""

    stages: tuple[tuple[Table, ...], ...]
    results: Path
    heading: str
    mark: str
    """Which marks of docs/evidence.md hold its tables."""

    @property
    def tables(self) -> tuple[Table, ...]:
        """All of them, in the order of running."""
        return tuple(table for stage in self.stages for table in stage)


def against(ours: Iterable[str], rivals: Iterable[str]) -> Pairs:
    """Each of ours with each rival."""
    return tuple((mine, theirs) for mine in ours for theirs in rivals)


GUARDED, ADAPTIVE = "rovr-gspo-guarded", "rovr-gspo-adaptive"
TOLD = "rovr-gspo-told"
"""The guarded settings' ceiling: what they would be if they knew every fault."""
OURS = ("rovr-gspo", ADAPTIVE, GUARDED)
RIVALS = ("winsor-softrovr", "normal-scores-softrovr", "clipped-softrovr")
"""Each with SoftRoVR, as ours have it: what differs is the reward channel alone."""
EVERYONE = ("gspo", *OURS, *RIVALS)
SHORT = ("gspo", *OURS, "winsor-softrovr")
STRONGEST = ("winsor-softrovr", "normal-scores-softrovr")
"""The rivals that come nearest: one on few spikes, the other on many."""
ABLATION = ("gspo", "rovr-adv", "softrovr", "rovr-gspo", ADAPTIVE)
OLDER = ("gspo", "rovr-gspo", ADAPTIVE, "center", "gspo-clamp", "winsor", "median-mad", "rovr-adv-adaptive")
CHANNELS = (("rovr-gspo", "rovr-adv"), ("rovr-gspo", "softrovr"), (ADAPTIVE, "rovr-gspo"))
STEPS = ((ADAPTIVE, "rovr-gspo"), *against([GUARDED], ["rovr-gspo", ADAPTIVE]))
"""What each step beyond the paper's settings brings."""
BESIDE_WINSOR = (*against([GUARDED, ADAPTIVE], ["winsor-softrovr"]), *STEPS)
BESIDE_BOTH = (*against([GUARDED, ADAPTIVE], STRONGEST), *STEPS)


def _setting(name: str, title: str, *contamination: str, **changes: object) -> Setting:
    base = Job(record=False, checkpoint_every=20, contamination=contamination)
    return Setting(name, title, base.with_(**changes))


SPIKED = _setting("spiked", "10 % spikes, score rewards", SPIKES)
CLEAN = _setting("clean", "clean score rewards")
THIRTY = _setting("thirty", "30 % spikes, score rewards", "spikes:rate=0.3,size=16")
FORTY_FIVE = _setting("fortyfive", "45 % spikes, score rewards", "spikes:rate=0.45,size=16")
RULE = _setting("rule", "10 % spikes, 0/1 rewards", SPIKES, reward="rule")
FIVE = _setting("five", "5 % spikes, score rewards", "spikes:rate=0.05,size=16")
TWENTY = _setting("twenty", "20 % spikes, score rewards", "spikes:rate=0.2,size=16")
UPWARD = _setting("upward", "10 % spikes upwards only, score rewards", "spikes:rate=0.1,size=16,sign=up")
SMALL = _setting("small", "10 % spikes of three times the contrast, score rewards", "spikes:rate=0.1,size=0.85")
VARIED = _setting("varied", "10 % spikes, sizes over two decades, score rewards", "spikes:rate=0.1,size=16,decades=2")
BY_PROMPT = _setting(
    "by-prompt",
    "10 % spikes at rates that depend on the prompt, score rewards",
    "spikes:rate=0.1,size=16,clustering=0.3",
)
BONUS = _setting("bonus", "clean rewards, rare right answers beside a small bonus", reward="bonus")
UNITS = _setting("units", "clean rewards, two data sets with other units", reward="units")
SEVERAL = _setting("several", "three reward functions, 10 % spikes in one of them", SPIKES, reward="several")
SEVERAL_CLEAN = _setting("several-clean", "three clean reward functions", reward="several")
MISMATCH = _setting("mismatch", "clean score rewards, responses from a bfloat16 copy", rollout="bfloat16")
INT8 = _setting("int8", "clean score rewards, responses from an int8 copy", rollout="int8")
INT4 = _setting("int4", "clean score rewards, responses from an int4 copy", rollout="int4")
TOOLS = ", choosing tools, graded call by call"
TOOLS_CLEAN = _setting("tools-clean", f"clean rewards{TOOLS}", model="tools", reward="rule")
TOOLS_SPIKED = _setting("tools-spiked", f"10 % spikes{TOOLS}", SPIKES, model="tools", reward="rule")
TOOLS_THIRTY = _setting("tools-thirty", f"30 % spikes{TOOLS}", "spikes:rate=0.3,size=16", model="tools", reward="rule")
ANOTHER_SPIKED = _setting("another-spiked", "10 % spikes, another warm-up", SPIKES, warm_up=WarmUp(seed=1))
ANOTHER_CLEAN = _setting("another-clean", "clean score rewards, another warm-up", warm_up=WarmUp(seed=1))

MAIN_PAIRS = (*against([GUARDED, ADAPTIVE], RIVALS), *STEPS)
MAIN = (
    Table(SPIKED, EVERYONE, 5, MAIN_PAIRS),
    Table(THIRTY, EVERYONE, 5, MAIN_PAIRS),
    Table(CLEAN, EVERYONE, 5, MAIN_PAIRS),
    Table(FORTY_FIVE, (*STRONGEST, GUARDED), pairs=against([GUARDED], STRONGEST[1:])),
    Table(
        BONUS, ("gspo", "softrovr", *OURS, *STRONGEST),
        pairs=(*against(OURS, ["softrovr"]), *against([GUARDED], STRONGEST), *STEPS),
    ),
    Table(
        RULE, ("gspo", "gspo-clamp", "softrovr-clamp", *OURS, *STRONGEST),
        pairs=(*against(OURS, ["gspo-clamp", "softrovr-clamp"]), *against([GUARDED], STRONGEST)),
    ),
)  # fmt: skip
"""What the claims rest on; run first."""
CEILING = tuple(
    Table(setting, (TOLD, GUARDED, *STRONGEST), seeds, against([TOLD], STRONGEST), "against the ceiling")
    for setting, seeds in ((THIRTY, 5), (SPIKED, 5), (FORTY_FIVE, 3), (TOOLS_THIRTY, 3), (TOOLS_SPIKED, 3))
)
"""Is there anything left to gain? Beside a run that is told which rewards are faults."""
ELSEWHERE = (
    Table(TOOLS_SPIKED, ("gspo", *OURS, *STRONGEST), pairs=BESIDE_BOTH),
    Table(TOOLS_THIRTY, ("gspo", *OURS, *STRONGEST), pairs=BESIDE_BOTH),
    Table(TOOLS_CLEAN, ("gspo", *OURS, *STRONGEST), pairs=BESIDE_BOTH),
    Table(ANOTHER_SPIKED, SHORT, pairs=BESIDE_WINSOR),
    Table(ANOTHER_CLEAN, SHORT, pairs=BESIDE_WINSOR),
)
"""Another task, another start."""
PLACEMENT = (
    Table(SPIKED, ABLATION, 5, CHANNELS, "channels apart"),
    Table(CLEAN, ABLATION, 5, CHANNELS, "channels apart"),
)
"""The paper's placement ablation."""
PER_REWARD = "rovr-gspo-per-reward"
COMPONENTS = (
    Table(SEVERAL, ("gspo", "gdpo", "rovr-gspo", PER_REWARD), pairs=against([PER_REWARD], ["gdpo", "rovr-gspo"])),
    Table(SEVERAL_CLEAN, ("gspo", "gdpo", "rovr-gspo", PER_REWARD), pairs=against([PER_REWARD], ["gdpo", "rovr-gspo"])),
)
"""Several reward functions, one of them broken."""
OTHER_FAULTS = (
    Table(TWENTY, SHORT, pairs=BESIDE_WINSOR),
    Table(VARIED, SHORT, pairs=BESIDE_WINSOR),
    Table(BY_PROMPT, SHORT, pairs=BESIDE_WINSOR),
    Table(UNITS, ("gspo", "softrovr", *OURS), pairs=(*against(OURS, ["softrovr"]), *STEPS)),
    Table(SMALL, SHORT, pairs=BESIDE_WINSOR),
)
"""Other rates, sizes and places of the faults, and two units."""
FURTHER = (
    Table(UPWARD, SHORT, pairs=BESIDE_WINSOR),
    Table(FIVE, SHORT, pairs=BESIDE_WINSOR),
    Table(
        MISMATCH, ("gspo", "softrovr", "rovr-gspo", GUARDED),
        pairs=against(["rovr-gspo", GUARDED], ["softrovr"]),
    ),
    Table(
        SPIKED, (*OLDER, "rovr-adv-guarded"), pairs=against(["rovr-adv-adaptive", "rovr-adv-guarded"], ["winsor"]),
        about="rivals without SoftRoVR",
    ),
    Table(CLEAN, ("gspo", "rovr-gspo", ADAPTIVE, "winsor"), about="rivals without SoftRoVR"),
)  # fmt: skip

CORRECTIONS = tuple(f"gspo-{name}" for name in ("tis", "tis-sequence", "mis", "icepop", "geometric"))
CORRECTED = ("gspo-recomputed", "gspo", "softrovr", *CORRECTIONS, "gspo-soft-rovr", "gspo-soft-rovr-reject")
"""GSPO whose policy tells the old log-probabilities itself, GSPO and SoftRoVR on the copy's, then the corrections."""
ROLLOUT_PAIRS = (
    ("softrovr", "gspo"),
    *against(["gspo-soft-rovr"], CORRECTIONS),
    ("gspo-soft-rovr-reject", "gspo-geometric"),
)
ROLLOUTS = tuple(Table(setting, CORRECTED, 3, ROLLOUT_PAIRS, "corrected") for setting in (INT8, MISMATCH))
"""Rollouts of another precision, corrected; with the next in docs/rollouts.md too."""
COARSE = (Table(INT4, CORRECTED, 3, ROLLOUT_PAIRS, "corrected"),)
"""A precision that nobody would serve: what a large mismatch does."""

WORDS = Job(model="smollm2-words", reward="rule", **WORLDS["smollm2-words"].sizes)
WORDS_METHODS = ("gspo", "rovr-gspo", GUARDED)
WORDS_PAIRS = ((GUARDED, "rovr-gspo"),)
LANGUAGE_MODEL = (
    Table(Setting("words-spiked", "10 % spikes", WORDS.with_(contamination=(SPIKES,))), WORDS_METHODS, 5, WORDS_PAIRS),
    Table(Setting("words-clean", "clean rewards", WORDS.with_(contamination=())), WORDS_METHODS, 5, WORDS_PAIRS),
)

SWEEPS: Mapping[str, Sweep] = {
    "evidence": Sweep(
        (MAIN, CEILING, COMPONENTS, ROLLOUTS, ELSEWHERE, OTHER_FAULTS, FURTHER, PLACEMENT, COARSE),
        Path("results/embedded"),
        "Runs of the embedded tasks",
        "tables",
    ),
    "smollm2": Sweep((LANGUAGE_MODEL,), Path("results/smollm2-words"), "Runs of SmolLM2-135M-Instruct", "smollm2"),
}


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
