"""An evaluation: how responses are drawn, and for each suite and run, chunk by chunk: generate, measure, keep."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rovrl.errors import RovrlError
from rovrl.evaluate.engine import Decoding, Engine
from rovrl.evaluate.metrics import BINARY, MEASURES, Metrics, Reward
from rovrl.evaluate.results import Record, Store, summarize, values
from rovrl.output.progress import Progress, counted, silent
from rovrl.tasks.catalog import SETS, Example


def task_of(suite: str) -> str:
    """The task a suite belongs to: by the catalog, or the word before the colon of TASK:FILE."""
    return SETS[suite].task if suite in SETS else suite.partition(":")[0]


def fingerprint(examples: Sequence[Example]) -> str:
    """Sixteen hex digits that change when a problem, its order or its gold answer changes."""
    digest = hashlib.blake2b(digest_size=8)
    for example in examples:
        digest.update(repr(sorted(example.items())).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


Unit = tuple[int, int]
"""(run, chunk of problems)"""


def evaluate(
    models: Sequence[str],
    suites: dict[str, list[Example]],
    decoding: Decoding,
    out: Path,
    *,
    open_engine: Callable[[str], Engine],
    rewards: Sequence[Reward] = (),
    progress: Progress = silent,
) -> dict[str, Any]:
    """The results of all suites, also written to `out/results.json`; `rewards` are metrics beside the suites' own.

    One model is evaluated `decoding.runs` times; several models are independent runs of one method, one each. `progress`
    counts final responses. A model is loaded only if it has something left to do.
    """
    if len(models) > 1 and decoding.runs > 1:
        raise ValueError(f"{len(models)} models are {len(models)} runs already: leave runs at 1, not {decoding.runs}")
    settings = {
        "models": list(models),
        "decoding": decoding.to_dict(),
        "rewards": {reward.name: reward.mark for reward in rewards},
        "data": {suite: fingerprint(examples) for suite, examples in suites.items()},
    }
    store = Store(out, settings)
    try:
        results: dict[str, Any] = {"settings": settings, "suites": {}}
        engines = _Engines(models, open_engine)
        responses = sum(map(len, suites.values())) * decoding.samples * max(decoding.runs, engines.count)
        more = counted(progress, responses)
        for suite, examples in suites.items():
            results["suites"][suite] = _suite(store, engines, suite, examples, decoding, rewards, more)
            store.write_results(results)
        return results
    finally:
        store.close()


def _suite(
    store: Store,
    engines: _Engines,
    suite: str,
    examples: list[Example],
    decoding: Decoding,
    rewards: Sequence[Reward],
    more: Callable[[int], None],
) -> dict[str, Any]:
    done = store.finished(suite, decoding.chunk, len(examples), decoding.samples)
    runs = max(engines.count, decoding.runs)
    units = [(run, unit) for run in range(runs) for unit in range(-(-len(examples) // decoding.chunk))]
    for key in units:
        if key not in done:
            done[key] = _unit(engines.of(key[0]), suite, examples, decoding, rewards, key)
            store.append(suite, done[key])
        more(len(done[key]))
    return _summary(suite, [record for key in units for record in done[key]], {reward.name for reward in rewards})


def _unit(
    engine: Engine, suite: str, examples: list[Example], decoding: Decoding, rewards: Sequence[Reward], key: Unit
) -> list[Record]:
    run, unit = key
    chosen = examples[unit * decoding.chunk : (unit + 1) * decoding.chunk]
    asked = [example for example in chosen for _ in range(decoding.samples)]
    started = time.perf_counter()
    responses = engine.generate(
        [example["prompt"] for example in asked],
        decoding,
        decoding.limit(task_of(suite)),
        decoding.seed_of(suite, run, unit),
    )
    metrics = _measured(task_of(suite), rewards, asked, [response.text for response in responses])
    seconds = (time.perf_counter() - started) / max(len(asked), 1)
    return [
        {
            "problem": example["id"],
            "run": run,
            "unit": unit,
            "sample": place % decoding.samples,
            "metrics": numbers,
            "completion": response.text,
            "tokens": response.tokens,
            "finished": response.finished,
            "seconds": round(seconds, 4),
        }
        for place, (example, response, numbers) in enumerate(zip(asked, responses, metrics, strict=True))
    ]


def _measured(
    task: str, rewards: Sequence[Reward], examples: Sequence[Example], completions: Sequence[str]
) -> list[Metrics]:
    """The task's own metrics, then each reward's."""
    found: list[Metrics] = MEASURES[task](examples, completions) if task in MEASURES else [{} for _ in examples]
    for reward in rewards:
        for row, more in zip(found, reward.measure(examples, completions), strict=True):
            if row.keys() & more:
                raise RovrlError(
                    f"two metrics are called {next(iter(row.keys() & more))!r}: rename the reward function"
                )
            row |= more
    return found


def _summary(suite: str, records: list[Record], own: set[str]) -> dict[str, Any]:
    """Means with their uncertainty; a reward of your own counts as right or wrong where all its values are 0 or 1."""
    numbers = {name: values(records, name)[1] for name in records[0]["metrics"]}
    binary = {n for n, v in numbers.items() if n in BINARY or (n in own and bool(np.isin(v, (0.0, 1.0)).all()))}
    return {
        "task": task_of(suite),
        "problems": len({record["problem"] for record in records}),
        "responses": len(records),
        "cut_off": sum(not record["finished"] for record in records) / len(records),
        "mean_tokens": sum(record["tokens"] for record in records) / len(records),
        "metrics": {name: summarize(found, binary=name in binary) for name, found in numbers.items()},
    }


class _Engines:
    """The engine of a run, opened when needed; one model is in memory at a time."""

    def __init__(self, models: Sequence[str], open_engine: Callable[[str], Engine]):
        self._models, self._open = models, open_engine
        self._current: tuple[str, Engine] | None = None
        self.count = len(models)

    def of(self, run: int) -> Engine:
        name = self._models[run] if len(self._models) > 1 else self._models[0]
        if self._current is None or self._current[0] != name:
            self._current = None  # let go of the previous model before loading the next
            self._current = (name, self._open(name))
        return self._current[1]
