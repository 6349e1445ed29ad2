"""What the evidence sweep runs: each setting is a world with methods and seeds; the main table first."""

from __future__ import annotations

from typing import NamedTuple

from rovrl.lab.job import SPIKES, Job

ABLATION = ("gspo", "rovr-adv", "softrovr", "rovr-gspo", "rovr-gspo-adaptive")
RIVALS = ("center", "gspo-clamp", "winsor", "median-mad", "rovr-adv-adaptive", "winsor-softrovr")
LIKE_WITH_LIKE = (
    ("rovr-gspo", "winsor"),
    ("rovr-adv-adaptive", "winsor"),
    ("rovr-gspo", "winsor-softrovr"),
    ("rovr-gspo-adaptive", "winsor-softrovr"),
)
THREE = ("gspo", "rovr-gspo", "rovr-gspo-adaptive")
CHANNELS = (("rovr-gspo", "rovr-adv"), ("rovr-gspo", "softrovr"), ("rovr-gspo-adaptive", "rovr-gspo"))


class Setting(NamedTuple):
    """A world in which methods are compared, with the methods and seeds run in it."""

    name: str
    title: str
    methods: tuple[str, ...]
    seeds: int
    job: Job
    beside: tuple[str, ...] = ("gspo",)
    """Methods that are run for another table and shown in this one too."""
    pairs: tuple[tuple[str, str], ...] = (("rovr-gspo-adaptive", "rovr-gspo"),)
    """Differences that a reader asks for besides those to GSPO."""

    @property
    def figure(self) -> str:
        """The name of the file with its learning curves."""
        return f"{self.name}.svg" if self.beside == ("gspo",) else f"{self.name}-rivals.svg"


_BASE = Job(record=False, checkpoint_every=20)
MAIN = (
    Setting("spiked", "10 % spikes, score rewards", ABLATION, 5, _BASE.with_(contamination=(SPIKES,)), pairs=CHANNELS),
    Setting("clean", "clean score rewards", ABLATION, 5, _BASE.with_(contamination=()), pairs=CHANNELS),
)
FURTHER = (
    Setting(
        "spiked", "10 % spikes, score rewards, rivals", RIVALS, 3,
        _BASE.with_(contamination=(SPIKES,)), THREE, LIKE_WITH_LIKE,
    ),
    Setting(
        "clean", "clean score rewards, winsorised", ("winsor", "winsor-softrovr"), 3,
        _BASE.with_(contamination=()), THREE, LIKE_WITH_LIKE,
    ),
    Setting(
        "rule", "10 % spikes, 0/1 rewards", (THREE[0], "gspo-clamp", *THREE[1:]), 3,
        _BASE.with_(reward="rule", contamination=(SPIKES,)),
        pairs=(("rovr-gspo", "gspo-clamp"), ("rovr-gspo-adaptive", "gspo-clamp")),
    ),
    Setting("five", "5 % spikes, score rewards", THREE, 3, _BASE.with_(contamination=("spikes:rate=0.05,size=16",))),
    Setting(
        "upward", "10 % spikes upwards only, score rewards", THREE, 3,
        _BASE.with_(contamination=("spikes:rate=0.1,size=16,sign=up",)),
    ),
    Setting(
        "mismatch", "clean score rewards, responses from a bfloat16 copy", ("gspo", "softrovr", "rovr-gspo"), 3,
        _BASE.with_(contamination=(), rollout="bfloat16"), pairs=(("rovr-gspo", "softrovr"),),
    ),
)  # fmt: skip
