"""What is ready to submit to TRL and to verl-recipe does what it says."""

import ast
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from rovrl import RatioChannel, RewardChannel
from rovrl.check.verl import compose, settings

ROOT = Path(__file__).parents[2]
ENTRY = (ROOT / "contrib" / "trl_paper_index.md").read_text()


@pytest.mark.filterwarnings("ignore")
def test_the_configuration_of_trls_paper_index_is_the_papers_math_run(tmp_path):
    [code] = re.findall(r"^```python\n(.*?)^```$", ENTRY, re.MULTILINE | re.DOTALL)
    *setting_up, last = ast.parse(code).body
    assert ast.unparse(last).startswith("trainer = RoVRTrainer(")  # has an ellipsis for the reader's own arguments
    names = {}
    exec(compile(ast.Module(setting_up, []), "trl_paper_index.md", "exec"), names)
    args = names["training_args"]
    assert RewardChannel.from_dict(args.reward_channel) == RewardChannel()  # the paper's numbers are the defaults
    assert RatioChannel.from_dict(args.ratio_channel) == RatioChannel()
    recipe = yaml.safe_load((ROOT / "recipes/math/qwen3-4b-base/rule/rovr-gspo.trl.yaml").read_text())
    same = "importance_sampling_level loss_type beta epsilon epsilon_high learning_rate num_generations max_completion_length"
    assert [getattr(args, name) for name in same.split()] == [recipe[name] for name in same.split()]
    per_update = 8 * recipe["per_device_train_batch_size"] * recipe["gradient_accumulation_steps"]  # on 8 GPUs
    assert args.per_device_train_batch_size * args.gradient_accumulation_steps == per_update
    updates = recipe["steps_per_generation"] // recipe["gradient_accumulation_steps"]
    assert args.steps_per_generation // args.gradient_accumulation_steps == updates


def test_the_title_of_the_entry_is_the_papers():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())["preferred-citation"]["title"]
    assert ENTRY.splitlines()[0] == f"### {cited}"


@pytest.mark.slow  # composing verl's configuration takes seconds
def test_the_verl_recipe_stands_alone_in_another_directory(tmp_path):
    there = Path(shutil.copytree(ROOT / "recipes" / "verl_math", tmp_path / "rovr_gspo"))
    links = re.findall(r"\]\(([^)#\s]+)\)", (there / "README.md").read_text())
    assert links
    assert [link for link in links if "://" not in link and (".." in link or not (there / link).exists())] == []
    for launcher in there.glob("*.sh"):
        subprocess.run(["bash", "-n", launcher], check=True)
    found = list(settings(compose(str(there / "config"), "rovr_math", [])))
    assert [remark.text for remark in found if remark.level in ("warning", "problem")] == []


def test_the_recipe_requires_the_verl_that_we_test_with():
    lines = (ROOT / "recipes/verl_math/REQUIRED_VERL.txt").read_text().splitlines()
    required = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
    assert required.keys() == {"UPSTREAM", "MODE", "TAG", "PIP_INSTALL"}
    [pinned] = re.findall(r"^verl==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert required["TAG"] == f"v{pinned}"
    assert f"verl=={pinned} " in required["PIP_INSTALL"]
