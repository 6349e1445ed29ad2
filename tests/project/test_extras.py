"""Without the optional packages every command and every public import names the extra that brings what it needs."""

import json
import subprocess
import sys

import pytest

HIDDEN = [
    "trl", "transformers", "accelerate", "datasets", "pyarrow", "rich", "yaml", "platformdirs", "verl",
    "transfer_queue", "zmq", "msgspec", "cachetools", "fastapi", "uvicorn", "rouge_score", "pysbd", "nltk",
    "matplotlib", "tensorboard", "jmespath", "packaging", "pandas", "ray", "hydra", "omegaconf", "tokenizers",
    "huggingface_hub", "peft", "scipy", "dill", "multiprocess",
]  # fmt: skip
"""What the extras bring; torch, numpy, jaxtyping and numba stay."""
COMMANDS = {
    "train": "train",
    "train --config run.yaml": "train",
    "train --sweep evidence --out sweep": "train",
    "audit rows.jsonl": "report",
    "stress rewards rows.jsonl": "train",
    "paper run tab:sim_rmse --smoke --out paper": "report",
    "eval model --suite math:gold.jsonl": "tasks",
    "doctor --engine trl seed=1": "train",
    "doctor --engine trl --config run.yaml": "train",
    "doctor --engine verl": "verl",
}
IMPORTS = {
    "rovrl.integrations.trl": "train",
    "rovrl.integrations.verl": "verl",
    "rovrl.records": "train",
}
LIGHT = (
    "audit",
    "baselines",
    "guarantees",
    "faults",
    "diagnostics",
    "tasks",
    "tasks.math",
    "tasks.toolcall",
)
SCRIPT = f"""
import contextlib, importlib, io, json, sys
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: None if name.split(".")[0] in {HIDDEN!r} else find(name, *rest)
from rovrl.cli import main
said = {{}}
for words in {list(COMMANDS)!r}:
    err = io.StringIO()
    with contextlib.redirect_stderr(err), contextlib.redirect_stdout(io.StringIO()):
        said[words] = [main(words.split()), err.getvalue()]
for name in {list(IMPORTS)!r}:
    try:
        importlib.import_module(name)
    except Exception as error:
        said[name] = [type(error).__name__, str(error)]
for name in {LIGHT!r}:
    importlib.import_module("rovrl." + name)
import rovrl_paper.paper, rovrl_paper.stress
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """Command or import -> [exit status or exception, sentence], all in one process that cannot see the extras."""
    place = tmp_path_factory.mktemp("bare")
    rows = [{"prompt": f"p{i // 8}", "completion": "x", "reward": i % 3, "step": 0} for i in range(32)]
    (place / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (place / "gold.jsonl").write_text('{"problem": "1+1", "answer": "2"}\n')
    (place / "run.yaml").write_text("model_name_or_path: x\n")
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=place, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_names_the_extra_that_it_needs(said, words):
    status, sentence = said[words]
    assert status == 2
    assert f"pip install 'rovrl[{COMMANDS[words]}]'" in sentence


@pytest.mark.parametrize("name", IMPORTS)
def test_a_public_import_names_the_extra_that_it_needs(said, name):
    kind, sentence = said[name]
    assert kind == "RovrlError"
    assert f"pip install 'rovrl[{IMPORTS[name]}]'" in sentence
