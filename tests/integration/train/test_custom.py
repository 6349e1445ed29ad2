"""`rovrl train --config run.yaml`: a practitioner's files, the sentences for wrong ones, and a resume."""

import json
import os
import shutil
import subprocess
import sys

import pytest
import yaml

import tiny
from rovrl.cli import main
from rovrl.errors import RovrlError
from rovrl.records import steps_in
from rovrl.train import settings

pytestmark = pytest.mark.filterwarnings("ignore")  # TRL and accelerate warn in several ways

REWARDS = """
def digits(completions, **kwargs):
    return [sum(c.isdigit() for c in text) / max(len(text), 1) for text in completions]

def raises(completions, **kwargs):
    raise KeyError("answer")

def too_few(completions, **kwargs):
    return [1.0]

def strict(completions):
    return [1.0] * len(completions)

number = 3
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny.saved(tmp_path_factory.mktemp("model"))


@pytest.fixture
def write(tmp_path, model, monkeypatch):
    """Writes run.yaml with changes over a working one, beside its data and rewards; returns its path."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "my_rewards.py").write_text(REWARDS)
    tiny.addition(32).to_json(tmp_path / "prompts.jsonl")

    def write(**changes):
        settings = {
            "model_name_or_path": model,
            "dataset_name": "prompts.jsonl",
            "reward_funcs": ["my_rewards.digits"],
            "output_dir": str(tmp_path / "out"),
            "per_device_train_batch_size": 9,
            "num_generations": 9,
            "steps_per_generation": 2,
            "max_completion_length": 8,
            "max_steps": 4,
            "save_steps": 2,
            "logging_steps": 1,
            "learning_rate": "1e-3",
            "report_to": "none",
            "gradient_checkpointing": False,
            "disable_tqdm": True,
        }
        path = tmp_path / "run.yaml"
        path.write_text(yaml.safe_dump({k: v for k, v in (settings | changes).items() if v is not None}))
        return str(path)

    yield write
    sys.modules.pop("my_rewards", None)


def train(path, **options):
    from rovrl.train import custom

    return custom.run(path, **options)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"learning_rat": 1e-5}, "no setting 'learning_rat'; did you mean learning_rate"),
        ({"num_generations": 1}, "num_generations must be at least 2"),
        ({"learning_rate": "fast"}, "learning_rate must be a number, not 'fast'"),
        ({"num_generations": "sixteen"}, "num_generations must be a whole number, not 'sixteen'"),
        ({"num_generations": 9.5}, "num_generations must be a whole number, not 9.5"),
        ({"gradient_checkpointing": "perhaps"}, "gradient_checkpointing must be true or false, not 'perhaps'"),
        ({"reward_channel": {"kappa": 2}}, "RewardChannel has no field kappa"),
        ({"model_name_or_path": None}, "model_name_or_path is missing"),
        ({"reward_funcs": ["my_rewards.nothing"]}, "'my_rewards.nothing' cannot be imported"),
        ({"reward_funcs": ["my_rewards.number"]}, "is not a function but of type int"),
        ({"reward_funcs": ["my_rewards.strict"]}, "its last parameter must be"),
        ({"dataset_name": "absent.jsonl"}, "absent.jsonl does not exist"),
        ({"eval_strategy": "steps", "per_device_eval_batch_size": 9}, "has no split test"),
        ({"contamination": ["spike"]}, "contamination 'spike' is not known; did you mean spikes"),
        ({"importance_sampling_level": "token"}, "importance_sampling_level"),
    ],
)
def test_a_wrong_setting_gets_a_sentence_that_names_it(write, changes, sentence):
    from rovrl.train.contamination import parse
    from rovrl.train.settings import load_data, read

    def check(path):
        custom = read(path)
        load_data(custom)
        [parse(text) for text in custom.contamination]

    with pytest.raises(RovrlError, match=sentence):
        check(write(**changes))


def test_a_dataset_without_prompts_names_its_columns(write, tmp_path):
    from rovrl.train.settings import load_data, read

    tiny.addition(8).rename_column("prompt", "question").to_json(tmp_path / "questions.jsonl")
    with pytest.raises(RovrlError, match="no column 'prompt', it has question, answer"):
        load_data(read(write(dataset_name="questions.jsonl")))


def test_a_damaged_line_of_the_data_is_named_by_its_number_in_the_file(write, tmp_path, capfd):
    lines = (tmp_path / "prompts.jsonl").read_text().splitlines()
    (tmp_path / "damaged.jsonl").write_text("\n".join([*lines[:6], '{"prompt": "1+1=", answer}', *lines[6:]]))
    with pytest.raises(RovrlError, match=r"damaged\.jsonl, line 7 is not a JSON object: .*answer}'; repair or delete"):
        settings.load_data(settings.read(write(dataset_name="damaged.jsonl")))
    assert " row " not in capfd.readouterr().err  # pyarrow's count, from 0


@pytest.mark.parametrize("suffix", ["json", "parquet", "csv"])
def test_local_files_of_every_kind_are_read(write, tmp_path, suffix):
    from rovrl.train.settings import load_data, read

    getattr(tiny.addition(8), f"to_{suffix}")(tmp_path / f"data.{suffix}")
    train_set, test_set = load_data(read(write(dataset_name=f"data.{suffix}")))
    assert train_set["prompt"][:2] == ["0+0=", "1+7="]
    assert test_set is None


def test_a_file_that_is_not_valid_yaml_is_reported_with_its_line(tmp_path):
    from rovrl.train.settings import read

    (tmp_path / "bad.yaml").write_text("a: [1,\nb: 2")
    with pytest.raises(RovrlError, match=r"is not valid YAML.*line 2"):
        read(str(tmp_path / "bad.yaml"))
    with pytest.raises(RovrlError, match="cannot be read"):
        read(str(tmp_path / "absent.yaml"))


def test_a_run_leaves_model_metrics_records_and_its_yaml(write, tmp_path, capsys):
    path = write(contamination=["spikes:rate=0.3,size=4"], reward_channel={"credit_bound": "adaptive"})
    assert train(path) == 0
    out = tmp_path / "out"
    assert {"model.safetensors", "metrics.jsonl", "records", "run.yaml", "checkpoint-4", "result.json"} <= {
        file.name for file in out.iterdir()
    }
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert "rovr/lagged_scale" in rows[0]
    assert steps_in(out) == [1, 2]
    assert "rovrl audit" in capsys.readouterr().out


@pytest.mark.slow
def test_a_run_does_not_overwrite_another_and_goes_on_with_resume_which_tells_what_changed(write, tmp_path, capsys):
    train(write(max_steps=2))
    with pytest.raises(RovrlError, match="already holds checkpoints; go on with --resume"):
        train(write())
    capsys.readouterr()
    train(write(max_steps=4, reward_channel={"credit_bound": "adaptive"}), resume=True)
    said = capsys.readouterr().out
    assert "reward_channel was None when this run began and is {'credit_bound': 'adaptive'} from here on" in said
    assert "max_steps was" not in said
    rows = [json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if "loss" in row] == [1, 2, 3, 4]


def test_resume_in_a_directory_that_is_not_there_trains_nothing(write, tmp_path):
    with pytest.raises(RovrlError, match=r"there is no run in .*typo to go on with; leave out --resume"):
        train(write(), resume=True, out=str(tmp_path / "typo"))
    assert main(["train", "--resume", "--out", str(tmp_path / "typo")]) == 2
    assert not (tmp_path / "typo").exists()


@pytest.mark.slow
def test_resume_before_the_first_whole_checkpoint_begins_so_that_a_restart_loop_can(write, tmp_path, capsys):
    train(write(max_steps=2))
    shutil.rmtree(tmp_path / "out" / "checkpoint-2")  # as if the run had been killed before it was written
    (tmp_path / "out" / "result.json").unlink()
    first = (tmp_path / "out" / "metrics.jsonl").read_text()
    train(write(max_steps=2), resume=True)
    assert "holds no whole checkpoint yet: the run begins" in capsys.readouterr().out
    second = (tmp_path / "out" / "metrics.jsonl").read_text()
    losses = [[json.loads(line).get("loss") for line in text.splitlines()] for text in (first, second)]
    assert losses[0] == losses[1]


@pytest.mark.slow
def test_a_finished_run_is_left_as_it_is(write, tmp_path, capsys):
    train(write(max_steps=3))
    model = (tmp_path / "out" / "model.safetensors").read_bytes()
    for _ in range(2):
        assert train(write(max_steps=3), resume=True) == 0
        assert "is finished: nothing to do" in capsys.readouterr().out
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == model
    train(write(max_steps=4), resume=True)
    assert json.loads((tmp_path / "out" / "result.json").read_text())["steps"] == 4


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--generations", "3"], "--generations describes the embedded job and would be ignored with --config"),
        (["--seeds=3"], "--seeds describes the embedded job"),
        (["--clean"], "--clean describes the embedded job"),
        (["--method", "gspo,rovr-gspo"], "trains one method"),
        (["--method", "gspo-clamp"], "clamp in your reward function"),
        (["--method", "gsop"], "'gsop' is not known; did you mean gspo"),
        (["--learning_rat", "1e-6"], "no setting 'learning_rat'; did you mean learning_rate"),
        (["--max_steps", "2", "3"], "'3' does not belong to any option"),
    ],
)
def test_an_option_that_would_be_ignored_beside_a_config_is_refused(write, capsys, words, sentence):
    assert main(["train", "--config", write(), *words]) == 2
    assert sentence in capsys.readouterr().err


def test_options_go_over_the_file_and_a_method_over_its_channels(write, monkeypatch):
    from rovrl.train import custom

    seen = {}
    monkeypatch.setattr(custom, "run", lambda config, **options: seen.update(options) or 0)
    words = ["--learning_rate", "1e-6", "--seed=3", "--log_completions", "--reward_weights", "[1, 2]"]
    assert main(["train", "--config", write(), "--method", "softrovr", *words]) == 0
    assert seen["changes"]["reward_channel"] is None
    read = settings.read(write(), None, {k: v for k, v in seen["changes"].items() if k != "reward_weights"})
    assert (read.training.learning_rate, read.training.seed, read.training.log_completions) == (1e-6, 3, True)
    assert read.training.reward_settings is None
    assert read.training.ratio_settings is not None
    assert seen["changes"]["reward_weights"] == [1, 2]


@pytest.mark.slow
def test_an_adapter_is_trained_alone(write, tmp_path):
    train(write(use_peft=True, lora_r=4, lora_target_modules=["q_proj", "v_proj"], max_steps=2))
    assert (tmp_path / "out" / "adapter_model.safetensors").exists()
    assert not (tmp_path / "out" / "model.safetensors").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sentence"), [("raises", r"my_rewards\.py:6 in raises: KeyError"), ("too_few", "returned 1 rewards")]
)
def test_a_reward_function_that_fails_is_told_and_finished_steps_stay(write, tmp_path, name, sentence):
    with pytest.raises(RovrlError, match=sentence):
        train(write(reward_funcs=[f"my_rewards.{name}"]))
    assert (tmp_path / "out" / "run.yaml").exists()


def test_an_output_directory_that_cannot_be_written_is_told(write, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RovrlError, match=r"cannot write to .*file/out"):
        train(write(), out=str(tmp_path / "file" / "out"))


@pytest.mark.slow
def test_accelerate_launches_the_module_on_two_processes(write, tmp_path):
    path = write(per_device_train_batch_size=9, max_steps=2, steps_per_generation=2)
    launch = [
        sys.executable,
        "-m",
        "accelerate.commands.launch",
        "--cpu",
        "--num_processes",
        "2",
        "--num_machines",
        "1",
    ]
    words = [*launch, "--mixed_precision", "no", "--dynamo_backend", "no", "-m", "rovrl.train", "--config", path]
    done = subprocess.run(words, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    rows = (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(row)["step"] for row in rows if "loss" in json.loads(row)] == [1, 2]
