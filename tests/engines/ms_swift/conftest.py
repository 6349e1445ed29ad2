"""Runs inside an environment with ms-swift, which has other versions of TRL and transformers than ours."""

import importlib.util
import json
import os
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("USE_HF", "1")  # ms-swift would otherwise ask its own hub again and again, for seconds each time

import pytest

HARNESS = Path(__file__).parents[2] / "integration/verl_harness/tiny.py"
REWARDS = """
from swift.rewards import ORM, orms


class Digits(ORM):
    def __call__(self, completions, **_):
        return [sum(c.isdigit() for c in text) / max(1, len(text)) for text in completions]


class Short(ORM):
    def __call__(self, completions, **_):
        return [None if text[:1] in "abc" else -1000.0 * len(text) for text in completions]


orms.update(digits=Digits, short=Short)
"""


@pytest.fixture(scope="session")
def workspace(tmp_path_factory):
    """A directory with a tiny model, a dataset of sums and a file of reward functions."""
    directory = tmp_path_factory.mktemp("ms-swift")
    spec = importlib.util.spec_from_file_location("harness_tiny", HARNESS)
    tiny = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tiny)
    tiny._model(directory, tiny._tokenizer(directory))
    rows = [
        {"messages": [{"role": "user", "content": f"{a}+{b}=?"}], "solution": str(a + b)}
        for a in range(8)
        for b in range(8)
    ]
    (directory / "sums.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (directory / "rewards.py").write_text(REWARDS)
    return directory


@pytest.fixture(scope="session")
def words(workspace):
    """(output directory, changes) -> what one types after `swift rlhf`."""
    from rovrl.integrations import plugin_command

    plugin = Path(plugin_command.__file__).parent / "ms_swift/plugin/rovrl_ms_swift.py"

    def typed(directory, **changes):
        options = {
            "rlhf_type": "grpo",
            "model": str(workspace),
            "model_type": "qwen3",
            "template": "qwen3",
            "dataset": str(workspace / "sums.jsonl"),
            "external_plugins": [str(plugin), str(workspace / "rewards.py")],
            "reward_funcs": ["digits", "short"],
            "reward_weights": ["1.0", "0.5"],
            "num_generations": 16,
            "per_device_train_batch_size": 16,
            "steps_per_generation": 2,
            "max_completion_length": 8,
            "max_length": 128,
            "max_steps": 4,
            "tuner_type": "full",
            "torch_dtype": "float32",
            "bf16": "false",
            "fp16": "false",
            "use_vllm": "false",
            "importance_sampling_level": "sequence",
            "epsilon": "3e-4",
            "epsilon_high": "4e-4",
            "beta": 0.0,
            "gradient_checkpointing": "false",
            "attn_impl": "eager",
            "use_cpu": "true",
            "split_dataset_ratio": 0,
            "report_to": "none",
            "logging_steps": 1,
            "save_steps": 2,
            "learning_rate": 1e-3,
            "lr_scheduler_type": "constant",
            "add_version": "false",
            "dataloader_num_workers": 0,
            "output_dir": str(directory),
            **changes,
        }
        flat = []
        for name, value in options.items():
            flat += [f"--{name}", *(map(str, value) if isinstance(value, list) else [str(value)])]
        return flat

    return typed
