"""Every block of code in README and docs/ is run or checked: here, or by test_readme.py where the page shows its output."""

import ast
import inspect
import json
import re
import shlex
import warnings
from functools import partial
from pathlib import Path

import pytest
import torch
import yaml

import rovrl
from rovrl import cli

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NO_CODE = {"text", "math", "bibtex"}


def blocks(page):
    """The fenced blocks of a page that do not show their output below them."""
    text = (ROOT / page).read_text()
    found = [each for each in FENCED.finditer(text) if each[1] not in NO_CODE]
    return [each[2] for each in found if not text[each.end() :].lstrip().startswith("```text")]


def block(page, word):
    """The one of them that holds `word`."""
    [found] = [code for code in blocks(page) if word in code]
    return found


def indented(page, first):
    """The indented code of a page from the line that begins with `first` to the next line of prose."""
    lines = (ROOT / page).read_text().split(f"\n    {first}", 1)[1].splitlines()
    end = next((k for k, line in enumerate(lines) if k and line and not line.startswith("    ")), None)
    return "\n".join([first + lines[0], *(line[4:] for line in lines[1:end])])


# --- commands ---------------------------------------------------------------------------------------------------------


def commands():
    """(where, words) of every `rovrl ...` line in the pages and in the examples of --help; comments are cut off."""
    texts = {str(page.relative_to(ROOT)): page.read_text() for page in [*PAGES, ROOT / "recipes" / "README.md"]}
    for name, (module, _) in cli.COMMANDS.items():
        texts[f"{name} --help"] = inspect.getsource(__import__(module, fromlist=["EXAMPLE"]))
    for where, text in texts.items():
        for line in re.findall(r"^ {2,4}(rovrl [a-z]+(?: .*)?)$", re.sub(r"\\{1,2}\n\s*", "", text), re.MULTILINE):
            words = shlex.split(re.split(r"\s#|\s\|\||\s{3,}|  (?=[a-z]+ )|\s\(", line)[0].replace("'", ""))
            if "of" not in words and "..." not in words:  # a line of output; settings of the reader's own
                yield where, words[1:]


def test_every_command_in_the_pages_and_in_help_has_options_that_exist():
    found = list(commands())
    assert len(found) > 60
    for where, words in found:
        parser, chosen = cli._parser(words)
        try:
            _, rest = parser.parse_known_args(words)
        except SystemExit:
            pytest.fail(f"{where}: rovrl {shlex.join(words)}")
        assert not rest or getattr(chosen, "TAKES_MORE", False), f"{where}: {words}"


# --- blocks that need no engine ---------------------------------------------------------------------------------------


def test_the_audit_in_python_runs_as_the_page_has_it(tmp_path, monkeypatch):
    rows = [{"step": i // 32, "prompt": f"p{i // 8}", "completion": "x", "reward": i % 5 / 4} for i in range(128)]
    rows[3]["reward"] = 40.0
    (tmp_path / "outputs" / "run").mkdir(parents=True)
    (tmp_path / "outputs" / "run" / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(block("docs/audit.md", 'audit("outputs/run"'), names)
    assert 40.0 in names["result"].rewards(names["worst"][0])
    assert {path.name for path in (tmp_path / "report").iterdir()} == {"audit.html", "audit.json"}
    assert (tmp_path / "flagged.csv").read_text().count("\n") >= 2


def test_the_page_on_faults_runs_and_finds_one(tmp_path):
    draw = torch.Generator().manual_seed(0)
    rewards = 0.1 * torch.randn(128 * 16, generator=draw, dtype=torch.float64)
    rewards[torch.rand(128 * 16, generator=draw) < 0.05] += 50.0
    names = {"rovrl": rovrl, "rewards": rewards, "group_ids": torch.arange(128).repeat_interleave(16)}
    exec(block("docs/faults.md", "rovrl.RewardChannel"), names)
    exec(block("docs/faults.md", "rovrl.explain"), names)
    assert names["info"].rejected.any()
    assert (rewards[names["info"].rejected] > 40).all()


def test_the_loss_on_the_page_about_speed_is_one_graph(monkeypatch):
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))  # without a compiler for C++
    names = {}
    exec(block("docs/speed.md", "torch.compile"), names)
    new = torch.zeros(3, 40, requires_grad=True)
    names["loss"](new, torch.zeros(3, 40), torch.ones(3, 40, dtype=torch.bool), torch.ones(3)).backward()
    assert new.grad.sum() == pytest.approx(-1.0, abs=1e-5)


def test_the_loss_over_split_responses_runs_on_a_group_of_one(tmp_path):
    log_ratios = torch.zeros(3, 40, requires_grad=True)
    names = {"rovrl": rovrl, "log_ratios": log_ratios, "mask": None, "advantages": torch.ones(3)}
    names |= {"channel": rovrl.RatioChannel(), "context_group": None}
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        exec(block("docs/engines.md", "soft_rovr_context_parallel"), names)
    finally:
        torch.distributed.destroy_process_group()
    assert log_ratios.grad.sum() == pytest.approx(-1.0, abs=1e-5)


def test_the_pages_readers_of_records_read_what_its_writer_wrote(tmp_path, monkeypatch, capsys):
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    columns = {
        "update": [0, 0], "group": ["a", "a"], "response": [0, 1], "prompt": ["p", "p"], "completion": ["x", "y"],
        "reward": [0.25, 1.0], "advantage": [-1.0, 1.0], "length": [2, 2], "clip_low": [3e-4] * 2,
        "clip_high": [4e-4] * 2, "log_ratios": [[0.0, 0.1]] * 2,
    }  # fmt: skip
    names = {"columns": columns}
    exec(indented("docs/records.md", "from rovrl.records import RecordWriter"), names)
    exec(indented("docs/records.md", "from rovrl.records import read_steps"), names)
    assert "0.25" in capsys.readouterr().out


def test_the_judge_of_the_page_is_made_as_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(indented("docs/tasks.md", "from rovrl.tasks.remote import JudgeReward"), names)
    assert type(names["judge"]).__name__ == "JudgeReward"


def test_the_settings_of_the_pages_yaml_are_read(tmp_path):
    from rovrl.train.settings import read

    text = block("docs/train.md", "reward_funcs")
    (tmp_path / "run.yaml").write_text(text)
    (tmp_path / "rewards.py").write_text(
        "def correct(completions, **columns):\n    return [0.0 for _ in completions]\n"
    )
    custom = read(str(tmp_path / "run.yaml"), changes={"bf16": False, "use_cpu": True})
    given = yaml.safe_load(text)
    assert custom.training.learning_rate == 1e-6
    channel = rovrl.RewardChannel
    assert channel.from_dict(custom.training.reward_channel) == channel.of(given["reward_channel"])
    assert custom.model.model_name_or_path == given["model_name_or_path"]
    assert custom.reward_funcs[0].__module__ == "rewards"


# --- blocks with an engine --------------------------------------------------------------------------------------------


def shortened(code):
    """The block's statements, with the trainer bound to `trainer` and not yet trained."""
    *before, last = ast.parse(code).body
    last = last.value.func.value if ast.unparse(last).endswith(".train()") else last.value
    if ast.unparse(last) == "trainer":
        return compile(ast.Module(before, []), "page", "exec")
    bound = ast.parse(f"trainer = {ast.unparse(last)}").body
    return compile(ast.Module([*before, *bound], []), "page", "exec")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("page", "word"),
    [("README.md", "steps_per_generation=8"), ("README.md", "math_reward"), ("docs/own-loop.md", "ratio_channel=None"),
     ("docs/trl.md", "RoVRTrainer")],
)  # fmt: skip
def test_a_trl_block_trains_a_tiny_model_as_written(page, word, tmp_path, monkeypatch, caplog):
    from datasets import Dataset

    import tiny
    from rovrl.integrations.trl import RoVRConfig, RoVRTrainer

    monkeypatch.chdir(tmp_path)
    model = tiny.saved(tmp_path / "model")
    rows = [{"prompt": f"{n}+{n}=", "answer": str(2 * n)} for n in range(8)]
    names = {
        "my_reward": lambda completions, **_: [float(len(set(text))) for text in completions],
        "dataset": Dataset.from_list(rows), "data": Dataset.from_list(rows), "model": model, "RoVRTrainer": RoVRTrainer,
        "args": RoVRConfig("out", num_generations=16, steps_per_generation=8),  # of README's first block
    }  # fmt: skip
    exec(shortened(re.sub(r'"Qwen/[^"]+"', repr(model), block(page, word))), names)
    trainer = names["trainer"]
    trainer.args.max_steps, trainer.args.logging_steps, trainer.args.save_strategy = 1, 1, "no"
    trainer.max_completion_length = trainer.generation_config.max_new_tokens = 4
    trainer.train()
    assert any("rovr/tied_rate" in entry for entry in trainer.state.log_history)
    advantages_alone = page == "docs/own-loop.md"
    assert (trainer.args.ratio_channel is None) == advantages_alone
    assert trainer.args.epsilon == (0.2 if advantages_alone else 3e-4)  # GRPO's own at token level, GSPO's at the other
    assert "falls back" not in caplog.text


def test_the_rloo_classes_of_the_page_are_trls_own_with_a_channel():
    import trl

    names = {}
    exec(block("docs/trl.md", "RoVRRLOOConfig"), names)
    assert issubclass(names["RoVRRLOOTrainer"], trl.RLOOTrainer)
    assert "reward_channel" in names["RoVRRLOOConfig"].__dataclass_fields__


def test_the_asynchronous_trainer_of_the_page_is_trls_with_both_channels():
    names = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TRL says that this part of it is experimental
        exec(block("docs/trl.md", "RoVRAsyncConfig"), names)
        from trl.experimental.async_grpo import AsyncGRPOTrainer
    assert issubclass(names["RoVRAsyncTrainer"], AsyncGRPOTrainer)
    told = {"reward_channel", "ratio_channel", "advantage", "multi_objective_aggregation"}
    assert told <= names["RoVRAsyncConfig"].__dataclass_fields__.keys()


def test_the_callback_of_the_page_takes_what_it_is_given():
    from rovrl.audit.callback import AuditCallback

    tree = ast.parse(block("docs/audit.md", "AuditCallback"))
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == "AuditCallback"]
    assert len(calls) == 2
    for call in calls:
        inspect.signature(AuditCallback).bind(**{word.arg: None for word in call.keywords})


@pytest.mark.slow  # verl's configuration takes seconds
@pytest.mark.filterwarnings("ignore")
def test_the_two_settings_that_give_verl_robust_advantages_are_enough_for_the_doctor():
    from rovrl.check import verl

    [line] = re.findall(r"main_ppo \.\.\. (.*)$", (ROOT / "docs/own-loop.md").read_text(), re.MULTILINE)
    own = ["actor_rollout_ref.actor.use_dynamic_bsz=true", "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=true"]
    config = verl.compose(None, "ppo_trainer", [*line.split(), *own])
    assert [remark.text for remark in verl.settings(config) if remark.level == "problem"] == []
    assert config.algorithm.adv_estimator == "rovr"
    assert config.actor_rollout_ref.actor.policy_loss.loss_mode == "vanilla"
