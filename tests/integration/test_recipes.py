"""Every recipe, composed and validated by the installed TRL and verl, and compared with its siblings."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from rovrl import RatioChannel, RewardChannel
from rovrl.check.verl import compose, settings
from rovrl.train.settings import read

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
TASKS = ("math", "govreport", "toolcall")
METHODS = ("gspo", "rovr-adv", "softrovr", "rovr-gspo")
NAMES = {  # what verl calls them: advantage estimator and loss
    "gspo": ("grpo", "gspo"),
    "rovr-adv": ("rovr", "gspo"),
    "softrovr": ("grpo", "rovr_gspo"),
    "rovr-gspo": ("rovr", "rovr_gspo"),
}
FOLDERS = sorted(path.parent for task in TASKS for path in (RECIPES / task).rglob("rovr-gspo.trl.yaml"))
GPUS = 8
# app:exp_protocol: G, prompts per rollout, prompts per update, prompt and response limits, rollouts that TRL counts out
PAPER = {
    "math": (16, 192, 24, 2048, 8192, 390),
    "govreport": (8, 192, 24, 16384, 1024, 500),
    "toolcall": (16, 64, 16, 3072, 1024, 500),
}


def name(folder):
    return "-".join(folder.relative_to(RECIPES).parts)


def task_of(folder):
    return folder.relative_to(RECIPES).parts[0]


def flat(tree, prefix=""):
    """{"a.b": value} of a nested mapping."""
    found = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def differences(folder, engine):
    """Which settings differ between the four methods, each with its values."""
    settings = {m: flat(yaml.safe_load((folder / f"{m}.{engine}.yaml").read_text())) for m in METHODS}
    keys = {key for one in settings.values() for key in one}
    return {key for key in keys if len({repr(one.get(key, "absent")) for one in settings.values()}) > 1}


def test_every_task_model_reward_and_method_of_the_paper_has_a_recipe_for_both_engines():
    assert [name(folder) for folder in FOLDERS] == [
        "govreport-olmo-3-7b-instruct-longdocfactscore", "govreport-qwen3-4b-base-longdocfactscore",
        "math-olmo-3-7b-instruct-internlm2", "math-olmo-3-7b-instruct-rule", "math-qwen3-4b-base-internlm2",
        "math-qwen3-4b-base-rule", "toolcall-qwen3-4b-base-rule",
    ]  # fmt: skip
    for folder in FOLDERS:
        assert {path.name for path in folder.iterdir()} == {f"{m}.{e}.yaml" for m in METHODS for e in ("trl", "verl")}


def test_the_files_are_what_the_program_writes():
    done = subprocess.run([sys.executable, RECIPES / "make.py", "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_methods_differ_in_nothing_but_the_method(folder):
    method = ("reward_channel", "ratio_channel")
    assert {key for key in differences(folder, "trl") if not key.startswith(method)} == {"output_dir"}
    allowed = ("algorithm.adv_estimator", "algorithm.rovr.", "actor_rollout_ref.actor.policy_loss.")
    assert {key for key in differences(folder, "verl") if not key.startswith(allowed)} == {"trainer.experiment_name"}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_trl_accepts_the_recipe_and_it_has_the_papers_numbers(folder, method):
    run = read(str(folder / f"{method}.trl.yaml"))
    group, prompts, update, asked, answered, rollouts = PAPER[task_of(folder)]
    training = run.training
    assert training.num_generations == group
    per_update = training.per_device_train_batch_size * GPUS * training.gradient_accumulation_steps
    assert per_update == update * group
    assert training.per_device_train_batch_size * GPUS * training.steps_per_generation == prompts * group
    assert training.max_steps == rollouts * (prompts // update)
    assert training.max_completion_length == answered
    assert training.vllm_max_model_length == asked + answered
    assert (training.epsilon, training.epsilon_high, training.learning_rate) == (3e-4, 4e-4, 1e-6)
    assert (training.importance_sampling_level, training.temperature, training.top_p) == ("sequence", 1.0, 1.0)
    assert (training.vllm_tensor_parallel_size, training.vllm_gpu_memory_utilization) == (2, 0.8)
    reward, ratio = training.reward_channel, training.ratio_channel
    assert (reward is not None, ratio is not None) == (
        method in ("rovr-adv", "rovr-gspo"),
        method in ("softrovr", "rovr-gspo"),
    )
    if reward is not None:
        channel = RewardChannel.from_dict(reward)
        assert (channel.credit_bound, channel.credit_floor, channel.num_levels, channel.score_width) == (
            1.0,
            1e-3,
            9,
            1.0,
        )
        assert (2 * channel.arbitrary_blocks + 1) * (2 * channel.replaced_per_block + 1) <= group  # no silent fallback
    if ratio is not None:
        assert RatioChannel.from_dict(ratio) == RatioChannel()  # the paper's numbers are the defaults
    assert callable(run.reward_funcs[0])


@pytest.mark.slow  # composing verl's configuration takes seconds each
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_verl_accepts_the_recipe_and_it_has_the_papers_numbers(folder, method):
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn, get_policy_loss_fn
    from verl.trainer.ppo.reward import get_custom_reward_fn
    from verl.utils.config import omega_conf_to_dataclass, validate_config

    config = compose(str(folder), f"{method}.verl", [])
    validate_config(config, use_reference_policy=False, use_critic=False)
    group, prompts, update, asked, answered, _ = PAPER[task_of(folder)]
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    assert (rollout.n, config.data.train_batch_size, actor.ppo_mini_batch_size) == (group, prompts, update)
    assert (config.data.max_prompt_length, config.data.max_response_length) == (asked, answered)
    assert (actor.clip_ratio_low, actor.clip_ratio_high, actor.optim.lr) == (3e-4, 4e-4, 1e-6)
    assert (rollout.tensor_model_parallel_size, rollout.gpu_memory_utilization) == (2, 0.8)
    assert (config.trainer.total_training_steps, config.trainer.total_epochs) == (500, 10)
    assert actor.loss_agg_mode == "seq-mean-token-mean"
    assert get_adv_estimator_fn(config.algorithm.adv_estimator) is not None
    built = omega_conf_to_dataclass(actor)
    assert get_policy_loss_fn(built.policy_loss.loss_mode) is not None
    assert (config.algorithm.adv_estimator, built.policy_loss.loss_mode) == NAMES[method]
    if "rovr" in config.algorithm:
        RewardChannel.from_dict(dict(config.algorithm.rovr))
    assert get_custom_reward_fn(config) is not None
    if method == "rovr-gspo":
        assert [finding for finding in settings(config) if finding.level == "problem"] == []


def test_verls_own_loader_gives_a_reward_that_scores():
    from verl.trainer.ppo.reward import get_custom_reward_fn

    folder = RECIPES / "math/qwen3-4b-base/rule"
    reward = get_custom_reward_fn(compose(str(folder), "rovr-gspo.verl", []))
    assert reward(data_source="math500", solution_str=r"\boxed{7}", ground_truth="7", extra_info={"index": 0}) == 1.0


def test_the_launchers_are_sound_shell_and_point_at_files_that_exist():
    for script in ("run_trl.sh", "run_verl.sh"):
        subprocess.run(["bash", "-n", RECIPES / script], check=True)
        done = subprocess.run(["bash", RECIPES / script], capture_output=True, text=True, check=False)
        assert done.returncode != 0
        named = done.stderr.split("such as ")[1].split()[0]
        assert (RECIPES.parent / named).is_file()


def test_three_seeds_make_three_runs_each_in_its_own_directory(tmp_path, monkeypatch):
    """tab:math_main has three independent runs: nothing but the seed and the place differs, on either engine."""
    echo = tmp_path / "accelerate"
    echo.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    echo.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    folder, runs = RECIPES / "math/qwen3-4b-base/rule", []
    for seed in ("1", "2", "3"):
        monkeypatch.setenv("SEED", seed)
        done = subprocess.run(
            ["bash", RECIPES / "run_trl.sh", folder / "gspo.trl.yaml"], capture_output=True, text=True, check=True
        )
        words = done.stdout.split()
        assert words[words.index("--seed") + 1] == seed
        assert words[words.index("--out") + 1] == f"runs/math/qwen3-4b-base/rule/gspo/seed{seed}"
        config = compose(str(folder), "gspo.verl", [])
        seeds = config.data.seed, config.actor_rollout_ref.rollout.seed, config.actor_rollout_ref.actor.data_loader_seed
        assert seeds == (int(seed),) * 3
        runs.append(config.trainer.default_local_dir)
    assert len(set(runs)) == 3


def test_accelerate_reads_the_launchers_configuration():
    from accelerate.commands.config.config_args import load_config_from_file

    config = load_config_from_file(str(RECIPES / "accelerate.yaml"))
    assert (str(config.distributed_type), config.num_processes) == ("DistributedType.FSDP", GPUS)


def test_make_notices_a_recipe_that_was_edited_by_hand(tmp_path):
    copy = tmp_path / "recipes"
    shutil.copytree(RECIPES, copy)
    edited = copy / "math/qwen3-4b-base/rule/gspo.trl.yaml"
    edited.write_text(edited.read_text().replace("learning_rate: 1.0e-06", "learning_rate: 2.0e-06"))
    done = subprocess.run([sys.executable, copy / "make.py", "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "gspo.trl.yaml is not what" in done.stdout


def test_the_programs_of_the_recipes_import():
    for path in (RECIPES / "make.py", RECIPES / "math/serve_reward.py"):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
        assert module.main.__doc__
