"""Rewards through client and server beside the model itself, and the verifier pool beside math-verify, on the same data.

The model is a random classifier, large enough that a batch of 32 takes a tenth of a second or so; the server is a process of
its own, as in training. math-verify is called directly, in one process, on the answers that the pool's two workers judge.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measuring import Row
from section_math import workload

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))


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
    texts = [f"{n}: " + "because " * 8 for n in range(64 if quick else 256)]
    command = [sys.executable, ROOT / "recipes/math/serve_reward.py", model, "--port", "0", "--device", "cpu"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert server.stdout is not None
    try:
        remote = HttpReward(server.stdout.readline().strip(), batch=32)
        pairs = [(_rate(remote, texts), _rate(direct, texts)) for _ in range(2 if quick else 8)][1:]
        worst = max(abs(a - b) for a, b in zip(remote(texts, texts), direct(texts, texts), strict=True))
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
    return [
        _row("served / the model's own batches of 32, rate", [a / b for a, b in pairs], must=0.9),
        Row("largest difference of a served score", worst, must=1e-4),
    ]


def pooled(quick: bool) -> list[Row]:
    """Rate of a pool of two workers over math-verify called directly in one process, every answer by algebra."""
    from rovrl.tasks.answers import final_answer
    from rovrl.tasks.verify import VerifierPool
    from rovrl.tasks.verify.worker import judge

    completions, golds = workload(20 if quick else 160, 8, seed=1)
    asked = list(dict.fromkeys((final_answer(text), gold) for text, gold in zip(completions, golds, strict=True)))
    size = len(asked) // (2 if quick else 6)
    judge(*asked[0])  # imports sympy
    ratios, same = [], []
    with VerifierPool(2) as pool:
        pool.verify(asked[:2] * 2)  # starts the workers
        for start in range(0, len(asked) - size + 1, size):  # fresh answers each time: both remember what they parsed
            part = asked[start : start + size]
            begun = time.perf_counter()
            direct = [judge(*pair) for pair in part]
            between = time.perf_counter()
            found = [verdict.accepted for verdict in pool.verify(part)]
            ratios.append((between - begun) / (time.perf_counter() - between))
            same += [a == b for a, b in zip(direct, found, strict=True)]
    return [
        _row("verifier pool, 2 workers / math-verify in one process, rate", ratios, must=1.8),
        Row("share of the same verdicts", sum(same) / len(same), must=1.0, at_least=True),
    ]


def run(quick: bool) -> list[Row]:
    """All rows."""
    with tempfile.TemporaryDirectory() as directory:
        return [*served(quick, Path(directory)), *pooled(quick)]


def _rate(reward, texts: list[str]) -> float:
    start = time.perf_counter()
    reward(texts, texts)
    return len(texts) / (time.perf_counter() - start)


def _row(name: str, values: list[float], must: float) -> Row:
    low, middle, high = statistics.quantiles(values, n=4) if len(values) > 1 else values * 3
    return Row(name, middle, low, high, must=must, at_least=True)
