"""Dumps in the formats that `rovrl audit` reads, written for its tests."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import numpy as np

HOSTILE = [
    "<script>window.hacked = 1</script>",
    "</script><script>window.hacked = 2</script>",
    "<!-- <script> --> ]]> {{data}} {{script}} ${window.hacked = 3}",
    '<img src="https://example.com/x.png" onerror="window.hacked = 4">',
    '<svg onload="window.hacked = 5"><a href="javascript:window.hacked = 6">x</a></svg>',
    '"); window.hacked = 7; ("',
    "\u2028\u2029 line ends \u0000 and \u202e right to left \u202c and \ud800 half a letter",
    "<style>* { display: none }</style><link rel=stylesheet href=//example.com><meta http-equiv=refresh content=0>",
    "<iframe src='https://example.com'></iframe><form action='https://example.com'><input autofocus onfocus=window.hacked=8>",
    "Z\u0351\u036b\u0343\u036a\u0302\u036b\u033d\u034f" * 40 + "x" * 20_000,
]


def rewards(groups: int, size: int = 16, spikes: float = 0.02, seed: int = 0) -> np.ndarray:
    """Scores with an offset per group, and spikes of ±18 on some."""
    generator = np.random.default_rng(seed)
    right = generator.random((groups, size)) < generator.random((groups, 1))
    score = generator.normal(0, 1.15, (groups, 1)) + 0.33 * right + generator.normal(0, 0.05, right.shape)
    hit = generator.random(score.shape) < spikes
    return score + hit * np.where(generator.random(score.shape) < 0.5, 18.0, -18.0)


def verl(folder: Path, scores: np.ndarray, per_step: int = 8, texts: list[str] | None = None, pads: int = 2) -> Path:
    """verl's rollout_data_dir: one file per step, one line per trajectory, sorted by uid, pad rows among them."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = texts or ["a response"]
    for step in range(-(-len(scores) // per_step)):
        lines = []
        for group, row in enumerate(scores[step * per_step : (step + 1) * per_step].tolist()):
            name = uuid.UUID(int=(step * per_step + group) * 2**64 + 12345)
            prompt = f"user\nprompt {step * per_step + group}"
            for k, score in enumerate(row):
                text = texts[k % len(texts)]
                line = {
                    "input": prompt,
                    "output": text,
                    "gts": "1",
                    "score": score,
                    "step": step + 1,
                    "uid": f"{name}_0_{k}",
                }
                lines.append(line)
        lines += [
            {"input": "", "output": "", "gts": "", "score": 0.0, "step": step + 1, "uid": f"pad{k}_0_0"}
            for k in range(pads)
        ]
        lines.sort(key=lambda line: line["uid"])
        (folder / f"{step + 1}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def table(path: Path, scores: np.ndarray, per_step: int = 8, **more: list) -> Path:
    """A generic table: Parquet, JSON lines or CSV by the name of the file."""
    import csv

    import pyarrow as pa
    import pyarrow.parquet as pq

    groups, size = scores.shape
    columns = {
        "step": np.repeat(np.arange(groups) // per_step + 1, size).tolist(),
        "group": np.repeat(np.arange(groups), size).tolist(),
        "reward": scores.ravel().tolist(),
        **more,
    }
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    if path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(columns))
            writer.writeheader()
            writer.writerows(rows)
    return path


def records(
    folder: Path,
    scores: np.ndarray,
    tokens: int = 40,
    per_step: int = 4,
    updates: int = 2,
    burst: float = 0.5,
    method: str = "",
    advantages: np.ndarray | None = None,
    settings: dict | None = None,
    notes: list[dict] | None = None,
) -> Path:
    """Records of rovrl: every response at every update, with token log-ratios; one response per step has a burst."""
    from rovrl.records import RecordWriter

    generator = np.random.default_rng(3)
    writer = RecordWriter(folder, {"made": "for a test"} | (settings or {}))
    for step in range(-(-len(scores) // per_step)):
        part = scores[step * per_step : (step + 1) * per_step]
        names = (
            "update",
            "group",
            "response",
            "prompt",
            "completion",
            "reward",
            "advantage",
            "length",
            "clip_low",
            "clip_high",
        )
        rows: dict[str, list] = {name: [] for name in (*names, "log_ratios")}
        for update in range(updates):
            for group, row in enumerate(part.tolist()):
                center, spread = float(np.mean(row)), float(np.std(row, ddof=1)) + 1e-4
                logged = (np.array(row) - center) / spread
                if advantages is not None:
                    logged = advantages[step * per_step + group]
                for response, reward in enumerate(row):
                    ratios = generator.normal(0, 1e-3 * update, tokens)
                    if update and group == 0 and response == 0:
                        ratios[10:18] += burst
                    values = (
                        update,
                        f"{step + 1}.{group}",
                        response,
                        f"prompt {step}.{group}",
                        f"answer {response}",
                        reward,
                    )
                    values += (float(logged[response]), tokens, 3e-4, 4e-4)
                    for name, value in zip(names, values, strict=True):
                        rows[name].append(value)
                    rows["log_ratios"].append(ratios.tolist())
        more = {"method": [method] * len(rows["reward"])} if method else {}
        writer.write_step(step + 1, rows | more, notes=notes[step] if notes else None)
    return folder


def swift_line(step: int, scores: np.ndarray) -> dict:
    """One log of ms-swift's GRPO trainer, by its code: every column is a list over the responses of the batch."""
    groups, size = scores.shape
    spread = (scores - scores.mean(1, keepdims=True)) / (scores.std(1, ddof=1, keepdims=True) + 1e-4)
    return {
        "step": [str(step)] * scores.size,
        "prompt": [f"question {step}-{g}" for g in range(groups) for _ in range(size)],
        "completion": [f"answer {step}-{k}" for k in range(scores.size)],
        "MathAccuracy": (scores - 0.25).ravel().tolist(),
        "Format": [0.5] * scores.size,
        "advantages": spread.ravel().tolist(),
        "entropy": [900.0 + k for k in range(scores.size)],
    }


def nemo(folder: Path, step: int, scores: np.ndarray) -> Path:
    """One step of NeMo-RL's GRPO, by its log_batched_dict_as_jsonl: a sample per line, no group ids, a common system prompt."""
    size, lines = scores.shape[1], []
    for k, score in enumerate(scores.ravel().tolist()):
        prompt, answer = [7, 7, step, k // size], [5] * (2 + k % 3)
        sample = {
            "content": [["You are careful.", f"question {k // size}", f"answer {k}"]],
            "rewards": [score],
            "token_ids": [[*prompt, *answer, 0]],
            "token_loss_mask": [[0] * 4 + [1] * len(answer) + [0]],
        }
        lines.append(json.dumps(sample | {"idx": k}))
    path = folder / f"train_data_step{step}.jsonl"
    path.write_text("\n".join(lines))
    return path


def prime(folder: Path, step: int, scores: np.ndarray, subset: str = "effective", first: int = 0) -> Path:
    """One step of prime-rl, by its Episode.to_record: an episode per line with one trace and its group's name."""
    lines = []
    for group, row in enumerate(scores.tolist()):
        center = float(np.nanmean(row))
        for k, score in enumerate(row):
            node = {
                "parent": 0,
                "message": {"role": "user", "content": f"question {first + group}"},
                "token_ids": [7, 7],
            }
            answer = {
                "role": "assistant",
                "content": f"answer {k}",
                "tool_calls": [{"id": "1", "name": "f", "arguments": "{}"}],
            }
            said = {"sampled": True, "message": answer, "token_ids": [5] * (2 + k % 3), "mask": [True] * (2 + k % 3)}
            trace = {
                "version": 1,
                "agent": {"config": {}, "name": "agent", "trainable": True},
                "nodes": [node | {"mask": [False] * 2}, said | {"advantages": [score - center] * (2 + k % 3)}],
                "calls": [{"node": 1, "finish_reason": "length" if k % 4 == 3 else "stop"}],
                "rewards": {"exact": {"score": score - 0.5, "weight": 1.0}, "form": {"score": 1.0, "weight": 0.5}},
                "metrics": {"turns": 1.0},
                "ok": True,
            }
            task = {"type": "Task", "data": {"idx": first + group, "prompt": f"question {first + group}"}}
            lines.append(
                {"id": f"{step}.{group}.{k}", "env": {"id": "maths"}, "task": task, "ok": True, "traces": [trace]}
            )
            lines[-1]["group"] = {"id": f"group {first + group}"}
    path = folder / "rollouts" / f"step_{step}" / "train" / subset / "traces.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
