"""What is run, how often, in pieces of what size, and what each part must show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from soak import chaos, generations, kills, speed, verifier

Found = dict[str, float]
RATES = (
    "{by the clock:.2f} [{by the clock, low:.2f}, {by the clock, high:.2f}] by the clock, "
    "{by processor time:.2f} [{by processor time, low:.2f}, {by processor time, high:.2f}] by processor time"
)
CLIENT = ("src/rovrl/tasks/remote", "src/rovrl/tasks/background.py")
VERIFIER = tuple(f"src/rovrl/tasks/{name}.py" for name in ("background", "verify", "verifier"))
TRAINER = ("src/rovrl/integrations/hf", "src/rovrl/integrations/trl", "src/rovrl/records")


@dataclass(frozen=True)
class Part:
    """`run(count, seed, directory)` is made once for each piece of `count`; the numbers of the pieces are added up.

    `most` and `least` are the bounds that decide, `must` and `line` say for the page what had to be shown and what was found;
    results count as long as the files in `sources` stay the same.
    """

    run: Callable[[int, int, Path], Found]
    count: int
    must: str
    line: str
    sources: tuple[str, ...]
    piece: int | None = None
    most: Found = field(default_factory=dict)
    least: Found = field(default_factory=dict)

    def pieces(self, scale: float) -> list[int]:
        """The counts of the pieces of a run of `scale` times the full one."""
        left, size = max(1, round(scale * self.count)), self.piece or self.count
        return [size] * (left // size) + [left % size] * bool(left % size)

    def missed(self, found: Found) -> list[str]:
        """The names of the numbers that are not what they must be."""
        over = [name for name, bound in self.most.items() if found[name] > bound]
        return over + [name for name, bound in self.least.items() if found[name] < bound]


PARTS = {
    "chaos": Part(
        lambda count, seed, _: chaos.run(count, 300.0, seed=seed), 10_000,
        must="a server that fails in every way, 10,000 responses: 0 wrong scores, none swapped",
        line="{wrong:.0f} wrong of {responses:,.0f}; {none:,.0f} None, of which {poison:.0f} are poison; "
        "{requests:,.0f} requests in {seconds:.0f} s",
        sources=(*CLIENT, "tests/soak/chaos.py"), most={"wrong": 0},
    ),
    "deadline": Part(
        lambda count, seed, _: chaos.run(count, 3.0, seed=seed), 10_000,
        must="the same with 3 s for the call: over within 1 s of its deadline",
        line="{wrong:.0f} wrong; over after {seconds:.2f} s; {none:,.0f} None, of which {none: deadline:,.0f} for want of time",
        sources=(*CLIENT, "tests/soak/chaos.py"), most={"wrong": 0, "seconds beyond the deadline": 1.0},
    ),
    "verifier": Part(
        lambda count, seed, _: verifier.run(count, seed=seed), 10_000, piece=500,
        must="the verifier, 10,000 interruptions at random moments, with forks, killed workers and hostile answers: 0 wrong "
        "verdicts, 0 zombies",
        line="{wrong:.0f} wrong of {verdicts:,.0f} after {interrupted:,.0f} interruptions, {forks:.0f} forks, "
        "{killed workers:.0f} killed workers and {hostile answers:.0f} hostile answers; {not judged:.0f} not judged; "
        "{zombies:.0f} zombies, {processes left:.0f} processes left",
        sources=(*VERIFIER, "tests/soak/verifier.py"), most={"wrong": 0, "zombies": 0, "processes left": 0},
    ),
    "eval": Part(
        kills.evaluation, 20, piece=5,
        must="20 SIGKILLs of `rovrl eval` at random moments: identical after resuming",
        line="{kills:.0f} kills of {runs:.0f} evaluations: {that differ:.0f} of {compared:.0f} responses and results differ",
        sources=("src/rovrl/evaluate", "src/rovrl/output", "tests/soak/kills.py"), most={"that differ": 0},
    ),
    "train": Part(
        kills.training, 20, piece=5,
        must="20 SIGKILLs of `rovrl train` at random moments: identical after resuming",
        line="{kills:.0f} kills of {runs:.0f} runs: {that differ:.0f} of {compared:.0f} weights, metrics and records differ",
        sources=("src/rovrl/train", *TRAINER, "tests/soak/kills.py"), most={"that differ": 0},
    ),
    "generations": Part(
        lambda count, _, home: generations.run(count, home), 2_000,
        must="2,000 generations of a tiny job with rewards from a failing server: memory and descriptors flat, every step's "
        "records readable",
        line="{generations:,.0f} generations, {records readable:,.0f} readable; {scores asked for:,.0f} scores, {retries:,.0f} "
        "retries, {none:,.0f} None; second half: {megabytes grown in the second half:+.1f} of {megabytes, middle:.0f} MB, "
        "{descriptors grown in the second half:+.0f} descriptors",
        sources=(*CLIENT, *TRAINER, "tests/soak/generations.py", "tests/reward_servers.py"),
        most={
            "megabytes grown in the second half": 20.0, "descriptors grown in the second half": 8, "records missing": 0,
        },
    ),
    "served": Part(
        lambda count, _, home: speed.served(home), 1,
        must="client and server, batch 32, against the model's own batched forward on the same data: at least 0.9 of its rate",
        line=f"{RATES}; scores differ by {{difference:.0e}} at most",
        sources=(*CLIENT, "src/rovrl/tasks/serve.py", "benchmarks/section_served.py"),
        least={"by the clock": 0.9, "by processor time": 0.9}, most={"difference": 1e-4},
    ),
    "pooled": Part(
        lambda count, *_: speed.pooled(), 1,
        must="the verifier pool, 2 workers, against math-verify called directly in one process: at least 1.8 times its rate",
        line=f"{RATES}; {{other verdicts:.0%}} of the verdicts differ",
        sources=(*VERIFIER, "benchmarks/section_served.py"),
        least={"by the clock": 1.8, "by processor time": 1.8}, most={"other verdicts": 0},
    ),
}  # fmt: skip
