"""`rovrl doctor`: what it finds wrong in a verl or TRL run, told before anything starts."""

import argparse
import importlib
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from omegaconf import OmegaConf

from rovrl import cli
from rovrl.check import doctor
from rovrl.check import verl as verl_doctor
from rovrl.errors import RovrlError

ACTOR = "actor_rollout_ref.actor"
TARGET = f"{ACTOR}.policy_loss._target_=rovrl.integrations.verl.RoVRPolicyLossConfig"
TRL = ["num_generations=16", "per_device_train_batch_size=16", "num_iterations=2"]
GOOD = [
    "algorithm.adv_estimator=rovr",
    f"{ACTOR}.policy_loss.loss_mode=rovr_gspo",
    f"{ACTOR}.clip_ratio_low=3e-4",
    f"{ACTOR}.clip_ratio_high=4e-4",
    f"{ACTOR}.loss_agg_mode=seq-mean-token-mean",
    f"{ACTOR}.ppo_micro_batch_size_per_gpu=4",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4",
    "actor_rollout_ref.rollout.n=16",
    "trainer.save_freq=20",
]


def findings(engine, *settings, **options):
    """level -> texts."""
    parser = argparse.ArgumentParser()
    doctor.add_arguments(parser)
    words = ["--engine", engine, *settings, *(["--no-ray"] if engine == "verl" else [])]
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}", value]
    found = {"ok": [], "note": [], "warning": [], "problem": []}
    for finding in doctor.check(parser.parse_args(words)):
        found[finding.level].append(finding.text)
    return found


@pytest.fixture(scope="module")
def good():
    """The composed configuration, open for settings to be merged in: composing takes most of a second."""
    config = verl_doctor.compose(None, "ppo_trainer", GOOD)
    OmegaConf.set_struct(config, False)
    return config


def test_a_verl_run_with_the_methods_settings_has_neither_problem_nor_warning():
    found = findings("verl", *GOOD)
    assert found["problem"] == found["warning"] == []
    assert "the driver knows rovr and rovr_gspo" in found["ok"]
    assert "groups of 16 in blocks of 6, 5, 5" in found["ok"]
    assert any(text.startswith("5 bad rewards of 16") for text in found["note"])


@pytest.mark.parametrize(
    ("setting", "level", "sentence"),
    [
        ("algorithm.adv_estimator=rover", "problem", "adv_estimator=rover is unknown to verl; did you mean rovr"),
        (f"{ACTOR}.policy_loss.loss_mode=rovr", "problem", "loss_mode=rovr is unknown to verl"),
        ("algorithm.adv_estimator=grpo", "note", "adv_estimator=grpo is verl's own"),
        ("+algorithm.rovr.blocks=3", "problem", "RewardChannel has no field blocks"),
        ("+algorithm.rovr.credit_bound=-1", "problem", "RewardChannel.credit_bound must be"),
        ("+algorithm.rovr=3", "problem", "rovr must hold fields of its channel"),
        (f"+{ACTOR}.policy_loss.rovr.temperature=0.02", "problem", f"policy_loss.rovr needs {TARGET}"),
        (f"{ACTOR}.clip_ratio_high=0.2", "problem", "the clip range 0.0003 / 0.2 never acts"),
        (f"{ACTOR}.loss_agg_mode=token-mean", "problem", "loss_agg_mode=token-mean does not weigh responses equally"),
        (
            "actor_rollout_ref.rollout.n=8",
            "warning",
            "rollout.n=8 in 3 blocks does not carry the declared budget (q=1, s=1)",
        ),
        ("actor_rollout_ref.rollout.n=1", "problem", "a group of one has no reference"),
        (f"{ACTOR}.ppo_mini_batch_size=1024", "warning", "one update per step"),
        ("trainer.device=cpu", "problem", "on a CPU bf16 rounds most token log-ratios to 0"),
        (f"{ACTOR}.ppo_micro_batch_size_per_gpu=null", "problem", "verl's own check of the configuration: "),
    ],
)
def test_each_wrong_setting_of_a_verl_run_is_found_and_named(good, setting, level, sentence):
    changed = OmegaConf.merge(good, OmegaConf.from_dotlist([setting.lstrip("+")]))
    assert any(sentence in finding.text for finding in verl_doctor.settings(changed) if finding.level == level)


def test_a_wrong_field_of_the_ratio_channel_is_found_with_the_channels_own_sentence():
    settings = [TARGET, f"+{ACTOR}.policy_loss.rovr.gamma=0.01"]
    found = findings("verl", *GOOD, *settings)
    assert any("RatioChannel has no field gamma" in text for text in found["problem"])


def test_a_relative_directory_for_records_is_refused(good):
    changed = OmegaConf.merge(good, OmegaConf.from_dotlist([TARGET, f"{ACTOR}.policy_loss.record_dir=here"]))
    assert any("must be an absolute path" in finding.text for finding in verl_doctor.settings(changed))


def test_the_recipes_configuration_is_the_method(request):
    config = request.config.rootpath / "recipes/verl_math/config"
    found = findings("verl", config_dir=str(config), config_name="rovr_math")
    assert found["problem"] == found["warning"] == []


def test_the_recipes_reward_is_found_by_verls_own_loader_and_its_launchers_are_valid_shell(request):
    from verl.trainer.ppo.reward import get_custom_reward_fn

    recipe = request.config.rootpath / "recipes/verl_math"
    reward = get_custom_reward_fn(verl_doctor.compose(str(recipe / "config"), "rovr_math", []))
    given = {"data_source": "math_train", "ground_truth": "4"}
    assert reward(solution_str="so it is \\boxed{4}", **given) == 1.0
    assert reward(solution_str="so it is \\boxed{5}", **given) == 0.0
    for launcher in recipe.glob("*.sh"):
        subprocess.run(["bash", "-n", str(launcher)], check=True)


def test_a_setting_that_hydra_refuses_and_a_missing_file_are_sentences():
    with pytest.raises(RovrlError, match=r"verl would not accept the settings: .*adv_estimatr"):
        findings("verl", "algorithm.adv_estimatr=rovr")
    with pytest.raises(RovrlError, match=r"there is no configuration nothing\.yaml"):
        findings("verl", config_name="nothing")


@pytest.mark.slow
def test_a_plugin_that_verl_was_told_to_leave_out_is_a_problem_unless_it_is_imported_as_a_module():
    code = "import sys; from rovrl.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-W", "ignore", "-c", code, "doctor", "--engine", "verl", "--no-ray", *GOOD]
    without = {**os.environ, "VERL_USE_EXTERNAL_PLUGINS": "none", "OMP_NUM_THREADS": "1"}
    module = {**without, "VERL_USE_EXTERNAL_MODULES": "rovrl.integrations.verl"}
    left_out, imported = (
        subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
        for environment in (without, module)
    )
    assert left_out.returncode == 1
    expected = "problem  verl did not load the plugin: VERL_USE_EXTERNAL_PLUGINS=none keeps the plugin out"
    assert expected in left_out.stdout
    assert imported.returncode == 0, imported.stdout + imported.stderr


@pytest.mark.slow
def test_a_worker_process_of_a_local_ray_knows_both_names(good):
    (finding,) = verl_doctor.workers(good, "local")
    assert finding.level == "ok"
    assert finding.text.endswith("knows rovr and rovr_gspo")


def test_a_cluster_that_cannot_be_reached_is_a_sentence_within_seconds(good):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # bound and not listening: refuses at once
        address = f"127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(RovrlError, match=f"cannot reach Ray at {address}: .* or --no-ray"):
            list(verl_doctor.workers(good, address))


def test_trl_counts_as_absent_for_verl_only_if_it_lacks_the_value_head(monkeypatch, tmp_path):
    import verl  # noqa: F401

    from rovrl.integrations.verl.step import trl_lacks_value_head

    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert not trl_lacks_value_head()
    found = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: found)
    (tmp_path / "__init__.py").write_text("from x import GRPOTrainer")
    assert trl_lacks_value_head()
    (tmp_path / "__init__.py").write_text("from x import AutoModelForCausalLMWithValueHead")
    assert not trl_lacks_value_head()
    (tmp_path / "__init__.py").write_text("")
    (tmp_path / "experimental/ppo").mkdir(parents=True)
    assert not trl_lacks_value_head()


@pytest.mark.slow
def test_the_command_ends_with_1_for_a_problem_and_0_without(capsys):
    assert cli.main(["doctor", "--engine", "trl", *TRL]) == 0
    assert capsys.readouterr().out.endswith("Nothing is wrong.\n")
    assert cli.main(["doctor", "--engine", "verl", "--no-ray", *GOOD, "trainer.device=cpu"]) == 1
    assert capsys.readouterr().out.endswith("1 problem: this run would fail, or would not be RoVR-GSPO.\n")


def test_without_verl_the_command_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "verl", None)
    assert cli.main(["doctor", "--engine", "verl", *GOOD]) == 2
    assert "'verl', which is not installed: pip install 'rovrl[verl]'" in capsys.readouterr().err


def test_without_verl_the_integration_says_what_to_install_and_rovrl_itself_is_unaffected(monkeypatch):
    import rovrl

    monkeypatch.setitem(sys.modules, "verl", None)
    for name in [name for name in sys.modules if name.startswith("rovrl.integrations.verl")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(RovrlError, match=r"pip install 'rovrl\[verl\]'"):
        importlib.import_module("rovrl.integrations.verl")
    importlib.reload(rovrl)


def test_a_trl_run_with_the_methods_settings_has_neither_problem_nor_warning():
    found = findings("trl", *TRL, "reward_channel={num_blocks: 3}")
    assert found["problem"] == found["warning"] == []


@pytest.mark.parametrize(
    ("setting", "level", "sentence"),
    [
        ("ratio_channel={gamma: 0.01}", "problem", "RatioChannel has no field gamma"),
        ("epsilon=0.2", "problem", "the clip range 0.2 / 0.2 never acts"),
        ("loss_type=dapo", "warning", "loss_type=dapo does not weigh responses equally"),
        ("reward_channel=none", "warning", "reward_channel off"),
        ("num_iterations=1", "warning", "the ratio channel idle"),
        ("num_generations=8", "warning", "does not carry the declared budget"),
        ("importance_sampling_level=token", "problem", "importance_sampling_level='token'"),
    ],
)
def test_each_wrong_setting_of_a_trl_run_is_found_and_named(setting, level, sentence):
    assert any(sentence in text for text in findings("trl", *TRL, setting)[level])


def test_an_unknown_field_and_an_unreadable_value_are_sentences():
    with pytest.raises(RovrlError, match="RoVRConfig has no field 'num_generation'; did you mean num_generations"):
        findings("trl", "num_generation=16")
    with pytest.raises(RovrlError, match="write field=value"):
        findings("trl", "16")
    with pytest.raises(RovrlError, match="cannot read the value of reward_channel"):
        findings("trl", "reward_channel={a: [")


@pytest.fixture
def run_yaml(tmp_path):
    """Writes the example's run.yaml with changes, beside its data and rewards; returns its path."""
    for name in ("prompts.jsonl", "my_rewards.py"):
        shutil.copy(Path(__file__).parents[3] / "examples" / name, tmp_path)

    (tmp_path / "asks.py").write_text(
        "def gold(completions, solution, **kwargs): return [float(s in c) for c, s in zip(completions, solution)]\n"
        "def one(completions, **kwargs): return 1.0\n"
        "def word(completions, **kwargs): return ['good'] * len(completions)\n"
    )

    def write(**changes):
        settings = yaml.safe_load((Path(__file__).parents[3] / "examples" / "run.yaml").read_text())
        path = tmp_path / "run.yaml"
        path.write_text(yaml.safe_dump({**settings, **changes}))
        return str(path)

    yield write
    for name in ("my_rewards", "asks"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("changes", "level", "sentence"),
    [
        ({}, "ok", "6 prompts, columns prompt, answer"),
        ({}, "note", "the model Qwen/Qwen3-0.6B is the Hub's"),
        ({"learning_rates": 1e-6}, "problem", "there is no setting 'learning_rates'; did you mean learning_rate"),
        ({"model_name_or_path": "./no-model"}, "problem", "there is no directory ./no-model"),
        ({"model_name_or_path": "."}, "problem", "holds no model (there is no config.json in it)"),
        ({"dataset_name": "no.jsonl"}, "problem", "the dataset file no.jsonl does not exist"),
        ({"reward_funcs": ["my_rewards.no_such"]}, "problem", "the reward function 'my_rewards.no_such'"),
        ({"num_generations": 8}, "warning", "does not carry the declared budget"),
        ({"reward_funcs": ["asks.gold"]}, "problem", "gold fails on the first row of the data (TypeError: "),
        ({"reward_funcs": ["asks.gold"]}, "problem", "that row has the columns prompt, answer"),
        ({"reward_funcs": ["asks.one"]}, "problem", "one returned one float for 1 completion"),
        ({"reward_funcs": ["asks.word"]}, "problem", "word returned 'good', which is not a number"),
    ],
)
def test_a_runs_file_is_looked_at_with_its_model_data_and_rewards(run_yaml, changes, level, sentence):
    assert any(sentence in text for text in findings("trl", config=run_yaml(**changes))[level])


def test_settings_go_over_the_file_and_the_findings_can_be_json(run_yaml, capsys):
    assert cli.main(["doctor", "--engine", "trl", "--config", run_yaml(), "--json", "epsilon=0.2"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["counts"]["problem"] == 1
    assert any("the clip range 0.2 / 0.2 never acts" in finding["text"] for finding in found["findings"])


def test_a_file_of_trl_is_refused_for_verl_and_a_missing_one_told(capsys):
    assert cli.main(["doctor", "--engine", "verl", "--config", "run.yaml"]) == 2
    assert cli.main(["doctor", "--engine", "trl", "--config", "no.yaml"]) == 2
    err = capsys.readouterr().err
    assert "--config-dir and --config-name" in err
    assert "there is no file no.yaml" in err


@pytest.mark.filterwarnings("ignore")  # verl says that it has no critic
def test_robust_advantages_with_verls_own_token_loss_are_no_problem():
    chosen = [
        setting for setting in GOOD if not any(word in setting for word in ("loss_mode", "clip_ratio", "loss_agg"))
    ]
    found = list(verl_doctor.settings(verl_doctor.compose(None, "ppo_trainer", chosen)))
    assert [finding for finding in found if finding.level in ("problem", "warning")] == []
    assert any("token-level loss" in finding.text for finding in found)


def commands_in(text):
    """The `rovrl doctor` commands of a help text or a page, continued lines joined, comments cut."""
    lines = text.replace("\\\n", " ").splitlines()
    found = [
        line.strip().split("rovrl doctor", 1)[1].split("   #")[0] for line in lines if "rovrl doctor --engine" in line
    ]
    return [shlex.split(words.split("`")[0]) for words in found if "<" not in words and "..." not in words]


@pytest.mark.filterwarnings("ignore")  # verl says that it has no critic
def test_every_doctor_command_in_help_and_docs_passes_the_doctor(request, monkeypatch, capsys):
    monkeypatch.chdir(request.config.rootpath)
    pages = [Path("README.md"), *Path("docs").glob("*.md"), *Path("recipes").rglob("*.md")]
    commands = commands_in(doctor.EXAMPLE) + [words for page in pages for words in commands_in(page.read_text())]
    assert len(commands) >= 3
    for words in commands:
        without_workers = ["--no-ray"] if "verl" in words and "--no-ray" not in words else []
        assert cli.main(["doctor", *words, *without_workers]) == 0, f"{words}\n{capsys.readouterr().out}"


@pytest.mark.filterwarnings("ignore")  # verl says that it has no critic
def test_the_settings_of_the_readmes_verl_command_pass_the_doctor(request):
    text = (request.config.rootpath / "README.md").read_text()
    (line,) = re.findall(r"verl\.trainer\.main_ppo \.\.\. (.*?)\n\n", text.replace("\\\n", " "), re.DOTALL)
    micro = [f"{ACTOR}.use_dynamic_bsz=true", "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=true"]  # of the "..."
    config = verl_doctor.compose(None, "ppo_trainer", [*line.split(), *micro, "actor_rollout_ref.rollout.n=16"])
    assert [f for f in verl_doctor.settings(config) if f.level == "problem"] == []


def test_what_a_trl_run_tolerates_is_said():
    found = findings("trl", *TRL)
    assert any(text.startswith("5 bad rewards of 16") for text in found["note"])
    assert not any("bad rewards" in text for text in findings("trl", *TRL, "reward_channel=null")["note"])
