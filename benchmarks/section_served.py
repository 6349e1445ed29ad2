"""Rewards through client and server beside the model itself, and the verifier pool beside math-verify, on the same data.

The model is a random classifier of which a batch of 32 takes 0.4 s of one core, less than a reward model of
billions of parameters takes on a GPU; the responses have 16 to 160 characters in random order. The server is a process of its
own with one thread, as in training. math-verify is called directly, in one process, on the answers that the pool's two workers
judge.

Each rate is measured twice: by the clock, and by the processor time of every process that has a part in it, which other load on
the machine does not change.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from measuring import Row
from section_math import workload

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))


class Pair(NamedTuple):
    """Direct over through the library: how many times as fast, by the clock and by processor time."""

    clock: float
    processor: float


def saved_classifier(directory: Path, hidden: int, layers: int) -> str:
    """A random one-label Qwen3 over characters."""
    from transformers import Qwen3Config, Qwen3ForSequenceClassification

    import tiny

    tokens = tiny.tokenizer()
    config = Qwen3Config(
        vocab_size=len(tokens), hidden_size=hidden, intermediate_size=4 * hidden, num_hidden_layers=layers,
        num_attention_heads=4, num_key_value_heads=2, head_dim=hidden // 4, num_labels=1,
        pad_token_id=tokens.pad_token_id, eos_token_id=tokens.eos_token_id, bos_token_id=None,
    )  # fmt: skip
    Qwen3ForSequenceClassification(config).save_pretrained(directory)
    tokens.save_pretrained(directory)
    return str(directory)


def served(quick: bool, directory: Path) -> list[Row]:
    """Rate of HttpReward and serve_reward.py, batch 32, over that of the model's own batches of 32 in this process."""
    from rovrl.tasks.remote import HttpReward
    from rovrl.tasks.reward_model import ClassifierReward

    model = saved_classifier(directory / "model", 64 if quick else 128, 2 if quick else 4)
    direct = ClassifierReward(model, batch=32, device="cpu")
    draw = random.Random(0)
    texts = [f"{n}: " + "because " * draw.randrange(2, 20) for n in range(64 if quick else 256)]
    command = [sys.executable, ROOT / "recipes/math/serve_reward.py", model, "--port", "0", "--device", "cpu"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert server.stdout is not None
    try:
        remote = HttpReward(server.stdout.readline().strip(), batch=32)
        prompts = ["Why?"] * len(texts)
        worst = max(abs(a - b) for a, b in zip(remote(prompts, texts), direct(prompts, texts), strict=True))
        pairs = [
            _pair(lambda: direct(prompts, texts), lambda: remote(prompts, texts), [server.pid])
            for _ in range(2 if quick else 5)
        ]
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
    return [
        *_rows("served / the model's own batches of 32, rate", pairs, must=0.9),
        Row("largest difference of a served score", worst, must=1e-4),
    ]


def pooled(quick: bool) -> list[Row]:
    """Rate of a pool of two workers over math-verify called directly in one process, every answer by algebra."""
    from rovrl.tasks.answers import final_answer
    from rovrl.tasks.verifier import judge
    from rovrl.tasks.verify import VerifierPool

    def answers(problems: int, seed: int) -> list[tuple[str, str]]:
        completions, golds = workload(problems, 8, seed=seed)
        return list(dict.fromkeys((final_answer(text), gold) for text, gold in zip(completions, golds, strict=True)))

    asked, others = answers(20 if quick else 480, seed=1), answers(20, seed=2)
    size = len(asked) // (2 if quick else 18)
    for pair in others:
        judge(*pair)  # imports sympy; then it and the workers are warm, as for most of their 2,000 questions
    pairs: list[Pair] = []
    verdicts: tuple[list[bool], list[bool]] = ([], [])
    with VerifierPool(2) as pool:
        pool.verify(others)
        for start in range(0, len(asked) - size + 1, size):  # fresh answers each time: both remember what they parsed
            part = asked[start : start + size]
            clock, processor = _pair(
                lambda part=part: verdicts[0].extend(judge(*pair) for pair in part),
                lambda part=part: verdicts[1].extend(verdict.accepted for verdict in pool.verify(part)),
                pool.pids(),
            )
            pairs.append(Pair(clock, 2 * processor))  # on two cores
    same = [a == b for a, b in zip(*verdicts, strict=True)]
    return [
        *_rows("verifier pool, 2 workers / math-verify in one process, rate", pairs, must=1.8),
        Row("share of the same verdicts", sum(same) / len(same), must=1.0, at_least=True),
    ]


def run(quick: bool) -> list[Row]:
    """All rows."""
    with tempfile.TemporaryDirectory() as directory:
        return [*served(quick, Path(directory)), *pooled(quick)]


def _pair(direct: Callable[[], object], ours: Callable[[], object], others: Sequence[int]) -> Pair:
    """One measurement of each, in turns; `others` are the processes that work for ours beside this one."""
    begun, used = time.perf_counter(), time.process_time()
    direct()
    alone, used_alone = time.perf_counter() - begun, time.process_time() - used
    begun, used = time.perf_counter(), time.process_time() + _processor_seconds(others)
    ours()
    together, used_together = time.perf_counter() - begun, time.process_time() + _processor_seconds(others) - used
    return Pair(alone / together, used_alone / used_together)


def _processor_seconds(pids: Sequence[int]) -> float:
    """Of these processes and their children, the living and the ended."""
    family = [
        member for pid in pids for top in [psutil.Process(pid)] for member in [top, *top.children(recursive=True)]
    ]
    times = [member.cpu_times() for member in family]
    return sum(t.user + t.system + t.children_user + t.children_system for t in times)


def _rows(name: str, pairs: Sequence[Pair], must: float) -> list[Row]:
    clock, processor = ([pair[side] for pair in pairs] for side in (0, 1))
    return [
        _row(f"{name}, by the clock", clock, must),
        _row(f"{name}, by processor time", processor, must),
    ]


def _row(name: str, values: list[float], must: float) -> Row:
    low, middle, high = statistics.quantiles(values, n=4)
    return Row(name, middle, low, high, must=must, at_least=True)
