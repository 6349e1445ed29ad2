"""Writes every recipe from one table of the paper's settings (`app:exp_protocol`), so that methods differ in the method alone.

python recipes/make.py           writes recipes/TASK/MODEL/REWARD/METHOD.{trl,verl}.yaml
python recipes/make.py --check   exit status 1 if a file is not what this program writes
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
GPUS = 8
MODELS = {"qwen3-4b-base": "Qwen/Qwen3-4B-Base", "olmo-3-7b-instruct": "allenai/Olmo-3-7B-Instruct"}

RATIO = {
    "num_blocks": 8, "min_block": 4, "num_levels": 9, "score_width": 1.0, "temperature": 0.01, "median_width": 0.01,
    "iterations": 32, "curvature_floor": 1e-6, "scale_floor": 1e-6, "scale_cap": 10.0, "regularizer": 1e-8,
}  # fmt: skip
METHODS = {"gspo": (False, False), "rovr-adv": (True, False), "softrovr": (False, True), "rovr-gspo": (True, True)}
"""method -> (reward channel, ratio channel)"""


@dataclass(frozen=True)
class Task:
    """What a task's runs have in common."""

    name: str
    models: tuple[str, ...]
    rewards: dict[str, str]  # name -> module; its TRL function and its `compute_score` for verl
    group: int  # G
    prompts: int  # per rollout
    update: int  # prompts per optimizer step
    prompt_tokens: int
    response_tokens: int
    steps: int  # rollouts
    rows: int
    train: str
    validate: tuple[str, ...]
    replaced: int  # s, the replacements inside a block that the group size can carry
    per_gpu: int  # sequences per forward pass of one GPU, TRL
    every: int  # rollouts between validations and checkpoints
    notes: tuple[str, ...]


TASKS = (
    Task(
        "math", tuple(MODELS), {"rule": "rovrl.tasks.math.math_reward", "internlm2": "rovrl.tasks.reward_model.learned_reward"},
        16, 192, 24, 2048, 8192, 500, 7498, "math_train",
        ("math500", "aime2025", "amc23", "gaokao2023en", "minervamath"), 1, 2, 30,
        ("At most 500 rollouts over 10 epochs (paper): an epoch has 39 whole batches, so the epochs end it at 390.",),
    ),
    Task(
        "govreport", tuple(MODELS), {"longdocfactscore": "rovrl.tasks.govreport.govreport_reward"},
        8, 192, 24, 16384, 1024, 500, 17517, "govreport_train", ("govreport",), 0, 1, 20,
        (
            "The paper states G = 8 and the sampling; prompts per rollout and update are math's, the token limits are ours.",
            "A group of 8 carries q = 1, s = 0: a replacement inside a usable block as well needs 9 (eq:resolution_frontier).",
        ),
    ),
    Task(
        "toolcall", ("qwen3-4b-base",), {"rule": "rovrl.tasks.toolcall.toolcall_reward"},
        16, 64, 16, 3072, 1024, 500, 3920, "rlla_train", ("rlla_test",), 1, 4, 20,
        ("The paper takes the best of four validations, one greedy response per prompt each:",),
    ),
)  # fmt: skip
EPOCHS = 10
SEEDS = (1, 2, 3)
"""The paper's three independent runs (tab:math_main): recipes are written for the first, SEED=2 and SEED=3 make the others."""
VERL_SEED = f"${{oc.decode:${{oc.env:SEED,{SEEDS[0]}}}}}"
VALIDATED = {
    "verl": ("verl validates every 20 rollouts; rovrl paper check sec:tool_call_results --runs LOG... compares.",),
    "trl": (
        "TRL's own evaluation samples, so every checkpoint is kept (one per 20 rollouts) and evaluated after the run:",
        "rovrl eval CHECKPOINT... --suite rlla_test --data rlla_4k --out EVAL,",
        "then rovrl paper check sec:tool_call_results --runs EVAL...",
    ),
}
"""How the tool-call runs get their validations, engine by engine."""


def reward_channel(task: Task) -> dict[str, Any]:
    """The paper's kappa, s_min, c and K; it states no B: 3 blocks, one of which may be arbitrary."""
    return {
        "num_blocks": 3, "arbitrary_blocks": 1, "replaced_per_block": task.replaced, "num_levels": 9, "score_width": 1.0,
        "credit_bound": 1.0, "credit_floor": 1e-3,
    }  # fmt: skip


def rollouts(task: Task) -> int:
    """The number of rollouts: the paper's steps, or what its epochs hold if that is less."""
    return min(task.steps, EPOCHS * (task.rows // task.prompts))


def trl(task: Task, model: str, reward: str, method: str) -> dict[str, dict[str, Any]]:
    """Sections of a `rovrl train --config` file."""
    robust_reward, robust_ratio = METHODS[method]
    updates = task.prompts // task.update
    accumulate = task.update * task.group // (GPUS * task.per_gpu)
    assert accumulate * GPUS * task.per_gpu == task.update * task.group, task.name
    return {
        "the method": {
            "reward_channel": reward_channel(task) if robust_reward else None,
            "ratio_channel": dict(RATIO) if robust_ratio else None,
            "output_dir": f"runs/{task.name}/{model}/{reward}/{method}/seed{SEEDS[0]}",
        },
        "model, data, reward (python -m rovrl.tasks.prepare makes the data)": {
            "model_name_or_path": MODELS[model],
            "dtype": "float32",  # the weights; updates of 1e-6 vanish in bfloat16
            "dataset_name": f"data/{task.train}.trl.jsonl",
            "reward_funcs": [task.rewards[reward]],
        },
        f"GSPO: sequence level, clip [0.9997, 1.0004], {updates} updates per rollout": {
            "importance_sampling_level": "sequence", "loss_type": "grpo", "epsilon": 3e-4, "epsilon_high": 4e-4, "beta": 0.0,
            "num_iterations": 1, "learning_rate": 1e-6, "lr_scheduler_type": "constant", "max_grad_norm": 1.0,
        },
        f"{task.prompts} prompts x {task.group} per rollout, {task.update} prompts per update, on {GPUS} GPUs": {
            "num_generations": task.group,
            "per_device_train_batch_size": task.per_gpu,
            "gradient_accumulation_steps": accumulate,
            "steps_per_generation": accumulate * updates,
            "max_steps": rollouts(task) * updates,
        },
        "sampling": {
            "temperature": 1.0, "top_p": 1.0, "max_completion_length": task.response_tokens, "use_vllm": True,
            "vllm_mode": "colocate", "vllm_tensor_parallel_size": 2, "vllm_gpu_memory_utilization": 0.8,
            "vllm_enable_sleep_mode": True, "vllm_max_model_length": task.prompt_tokens + task.response_tokens,
            "vllm_importance_sampling_correction": False,
        },
        "running": {
            "bf16": True, "gradient_checkpointing": True, "logging_steps": 1, "save_steps": task.every * updates,
            "save_total_limit": None if task.name == "toolcall" else 2, "seed": SEEDS[0],
        },
    }  # fmt: skip


def verl(task: Task, model: str, reward: str, method: str) -> dict[str, dict[str, Any]]:
    """Sections of a Hydra configuration on top of verl's ppo_trainer."""
    robust_reward, robust_ratio = METHODS[method]
    algorithm: dict[str, Any] = {"adv_estimator": "rovr" if robust_reward else "grpo", "use_kl_in_reward": False}
    policy: dict[str, Any] = {"loss_mode": "rovr_gspo" if robust_ratio else "gspo"}
    if robust_reward:
        algorithm["rovr"] = reward_channel(task)
    if robust_ratio:
        policy = {"_target_": "rovrl.integrations.verl.RoVRPolicyLossConfig", **policy, "rovr": dict(RATIO)}
    longest = task.prompt_tokens + task.response_tokens
    module = task.rewards[reward].rpartition(".")[0]
    files = [f"${{oc.env:DATA_DIR,data}}/{name}.parquet" for name in task.validate]
    return {
        "verl's own defaults": {
            "defaults": ["ppo_trainer", "_self_"],
            "hydra": {"searchpath": ["pkg://verl.trainer.config"]},
        },
        "the method": {"algorithm": algorithm},
        "data (python -m rovrl.tasks.prepare) and reward": {
            "data": {
                "train_files": f"${{oc.env:DATA_DIR,data}}/{task.train}.parquet",
                "val_files": files,
                "train_batch_size": task.prompts,
                "seed": VERL_SEED,
                "max_prompt_length": task.prompt_tokens,
                "max_response_length": task.response_tokens,
                "filter_overlong_prompts": True,
                "truncation": "error",
            },
            "reward": {"custom_reward_function": {"path": f"pkg://{module}", "name": "compute_score"}},
        },
        f"GSPO: sequence level, clip [0.9997, 1.0004], {task.prompts // task.update} updates per rollout": {
            "actor_rollout_ref": {
                "model": {"path": MODELS[model], "use_remove_padding": True, "enable_gradient_checkpointing": True},
                "actor": {
                    "policy_loss": policy,
                    "strategy": "fsdp2",
                    "ppo_mini_batch_size": task.update,
                    "data_loader_seed": VERL_SEED,
                    "use_dynamic_bsz": True,
                    "ppo_max_token_len_per_gpu": 2 * longest,
                    "clip_ratio_low": 3e-4,
                    "clip_ratio_high": 4e-4,
                    "loss_agg_mode": "seq-mean-token-mean",
                    "use_kl_loss": False,
                    "entropy_coeff": 0.0,
                    "optim": {"lr": 1e-6},
                },
                "rollout": {
                    "name": "vllm",
                    "mode": "async",
                    "n": task.group,
                    "seed": VERL_SEED,
                    "temperature": 1.0,
                    "top_p": 1.0,
                    "tensor_model_parallel_size": 2,
                    "gpu_memory_utilization": 0.8,
                    "log_prob_use_dynamic_bsz": True,
                    "log_prob_max_token_len_per_gpu": 4 * longest,
                    "val_kwargs": {"n": 1, "do_sample": False, "temperature": 0},
                },
            },
            "critic": {"enable": False},
        },
        "running": {
            "trainer": {
                "project_name": f"rovrl_{task.name}",
                "experiment_name": f"{model}_{reward}_{method}_seed${{oc.env:SEED,{SEEDS[0]}}}",
                "n_gpus_per_node": GPUS,
                "nnodes": 1,
                "total_epochs": EPOCHS,
                "total_training_steps": task.steps,
                "test_freq": task.every,
                "save_freq": task.every,
                "logger": ["console", "file"],
                "rollout_data_dir": "${trainer.default_local_dir}/rollouts",
            },
        },
    }


ENGINES = {"trl": trl, "verl": verl}


def recipes() -> Iterator[tuple[Path, str]]:
    """Every recipe: its path below this directory, and its text."""
    for task in TASKS:
        for model in task.models:
            for reward in task.rewards:
                for method in METHODS:
                    for engine, sections in ENGINES.items():
                        path = Path(task.name) / model / reward / f"{method}.{engine}.yaml"
                        yield path, text(task, model, reward, method, engine, sections(task, model, reward, method))


def text(task: Task, model: str, reward: str, method: str, engine: str, sections: dict[str, dict[str, Any]]) -> str:
    """A recipe as YAML with a comment over each section."""
    lines = [f"# {method} on {task.name}: {MODELS[model]}, {reward} reward, {engine}. Written by recipes/make.py."]
    lines += [f"# {note}" for note in (*task.notes, *(VALIDATED[engine] if task.name == "toolcall" else ()))]
    for comment, content in sections.items():
        lines += ["", f"# {comment}", yaml.dump(content, Dumper=_Plain, sort_keys=False, width=110).rstrip()]
    return "\n".join(lines) + "\n"


class _Plain(yaml.SafeDumper):
    """Numbers that every YAML reader takes for numbers: 1.0e-06, not 1e-06."""


_Plain.add_representer(
    float,
    lambda dumper, value: dumper.represent_scalar(
        "tag:yaml.org,2002:float",
        repr(value) if "e" not in repr(value) or "." in repr(value) else repr(value).replace("e", ".0e"),
    ),
)


def main() -> int:
    """The command."""
    made = dict(recipes())
    there = {path.relative_to(HERE) for name in {task.name for task in TASKS} for path in (HERE / name).rglob("*.yaml")}
    if "--check" in sys.argv[1:]:
        wrong = sorted(there ^ made.keys()) + [p for p in made if p in there and (HERE / p).read_text() != made[p]]
        for path in wrong:
            print(f"{path} is not what recipes/make.py writes")
        return bool(wrong)
    for path in there - made.keys():
        (HERE / path).unlink()
    for path, content in made.items():
        (HERE / path).parent.mkdir(parents=True, exist_ok=True)
        (HERE / path).write_text(content)
    print(f"{len(made)} recipes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
