"""The built wheel and source distribution hold what they must; installed alone, the wheel keeps what each extra promises."""

import json
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml
from readme_renderer import markdown

import tiny
from fresh import Fresh, metadata, needed

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
TRACKED = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.splitlines()
TRACKED = [name for name in TRACKED if (ROOT / name).is_file() and not name.startswith("results/")]
FOR_THE_REPOSITORY = (".ci/", ".github/", ".gitignore")
VERL = """algorithm.adv_estimator=rovr actor_rollout_ref.actor.policy_loss.loss_mode=rovr_gspo actor_rollout_ref.rollout.n=16
actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-mean actor_rollout_ref.actor.clip_ratio_low=3e-4
actor_rollout_ref.actor.clip_ratio_high=4e-4 actor_rollout_ref.actor.use_dynamic_bsz=true
actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=true"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """(wheel, source distribution), built as `make dist` builds them: the wheel from the source distribution."""
    place = tmp_path_factory.mktemp("source")
    for name in TRACKED:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(place / "dist"), str(place)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    (wheel,), (source,) = (place / "dist").glob("*.whl"), (place / "dist").glob("*.tar.gz")
    return wheel, source


@pytest.fixture(scope="module")
def fresh(built, tmp_path_factory):
    return Fresh(built[0], tmp_path_factory.mktemp("fresh"))


def ran(done):
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-3000:]
    return done.stdout


def test_the_wheel_has_every_file_of_the_package_and_the_pages_that_messages_name(built):
    names = set(zipfile.ZipFile(built[0]).namelist())
    assert {name.removeprefix("src/") for name in TRACKED if name.startswith("src/")} - names == set()
    (data,) = {name.split("/")[0] for name in names if ".data/" in name}
    shared = [name for name in TRACKED if re.match(r"docs/[^/]+\.(md|png)$|examples/|recipes/", name)]
    assert len(shared) > 80
    assert {f"{data}/data/share/rovrl/{name}" for name in shared} - names == set()


def test_the_source_distribution_has_every_file_but_those_for_the_repository(built):
    with tarfile.open(built[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {name for name in TRACKED if not name.startswith(FOR_THE_REPOSITORY)} - names == set()


def test_the_long_description_renders_with_links_that_lead_somewhere(built):
    page = markdown.render(metadata(built[0]).get_payload())
    assert page is not None
    assert page.count("<table>") >= 2
    links = re.findall(r'(?:href|src)="([^"]+)"', page)
    assert len(links) > 20
    ours = re.compile(r"https://(?:github\.com/rovrl/rovrl/blob|raw\.githubusercontent\.com/rovrl/rovrl)/main/([^#]+)")
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    assert [found[1] for link in links if (found := ours.match(link)) and not (ROOT / found[1]).exists()] == []


def test_the_wheel_alone_runs_the_readmes_first_example_and_knows_its_pages(fresh, tmp_path):
    code, output = re.search(
        r"```python\n(.*?)```\n\n```text\n(.*?)```", (ROOT / "README.md").read_text(), re.S
    ).groups()
    assert ran(fresh.run("", "-c", code, cwd=tmp_path)) == output
    assert "trl" not in needed(fresh.wheel, "")
    place = re.search(r"are in\s+(\S+)", ran(fresh.run("", "-m", "rovrl", "--help", cwd=tmp_path)))[1]
    assert (Path(place) / "docs" / "train.md").is_file()
    refused = fresh.run("", "-m", "rovrl", "train", cwd=tmp_path)
    assert (refused.returncode, "pip install 'rovrl[train]'" in refused.stderr) == (2, True)


def test_report_draws_audits_and_writes_the_papers_tables(fresh, tmp_path):
    rows = [{"prompt": f"p{i // 8}", "completion": "x", "reward": i % 3 * 0.5, "step": i // 32} for i in range(128)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code = """
from rovrl.cli import main
assert main(["audit", "rows.jsonl", "--out", "audit"]) in (0, 1)
assert main(["paper", "run", "tab:sim_rmse", "--smoke", "--out", "paper"]) == 0
assert main(["report", "--results", "paper", "--out", "report.html"]) == 0
import runpy, sys
sys.argv = ["demo", "--png", "one.png"]
runpy.run_module("rovrl_paper.demo", run_name="__main__")
"""
    ran(fresh.run("report", "-c", code, cwd=tmp_path))
    assert all((tmp_path / name).stat().st_size > 10_000 for name in ("audit/audit.html", "report.html", "one.png"))


def test_train_trains_a_model_from_a_file_and_logs_to_tensorboard(fresh, tmp_path):
    settings = yaml.safe_load((ROOT / "examples" / "run.yaml").read_text()) | {
        "model_name_or_path": tiny.saved(tmp_path / "model"), "output_dir": "out", "max_steps": 1, "use_cpu": True,
        "bf16": False, "max_completion_length": 4, "report_to": ["tensorboard"], "logging_steps": 1,
    }  # fmt: skip
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(settings))
    for name in ("prompts.jsonl", "my_rewards.py"):
        (tmp_path / name).write_bytes((ROOT / "examples" / name).read_bytes())
    ran(fresh.run("train", "-m", "rovrl", "train", "--config", "run.yaml", cwd=tmp_path))
    assert list(tmp_path.rglob("events.out.tfevents*"))
    assert (tmp_path / "out" / "model.safetensors").exists()


def test_tools_brings_what_trl_parses_tool_calls_with(fresh, tmp_path):
    assert "jmespath" not in needed(fresh.wheel, "train")
    code = "import rovrl.integrations.trl; from trl.import_utils import is_jmespath_available as there; print(there())"
    assert ran(fresh.run("tools", "-c", code, cwd=tmp_path)).splitlines()[-1] == "True"


def test_verl_finds_the_plugin_and_the_doctor_finds_no_problem(fresh, tmp_path):
    words = ["doctor", "--engine", "verl", *VERL.split(), "--no-ray"]
    said = ran(fresh.run("verl", "-m", "rovrl", *words, cwd=tmp_path))
    assert "0 problems" in said or "problem" not in said, said


def test_tasks_judges_prepares_and_measures(fresh, tmp_path):
    (tmp_path / "mine.jsonl").write_text('{"question": "1/2+1/4", "answer": "\\\\frac{3}{4}"}\n')
    code = """
from rovrl.cli import main
from rovrl.tasks import prepare
from rovrl.tasks.govreport import rouge
from rovrl.tasks.longdocfact import LongDocFACTScore
from rovrl.tasks.math import score
from rovrl.tasks.remote import HttpReward, JudgeReward
if __name__ == "__main__":
    assert score("so 0.75", "\\\\frac{3}{4}") == 1.0
    assert main(["eval", "--check-gold", "mine.jsonl"]) == 0
    assert prepare.main(["math", "--rows", "mine.jsonl", "--out", "data"]) == 0
    assert rouge("a b", "a b")["rouge1"] == 1.0
"""
    (tmp_path / "tasks.py").write_text(code)
    ran(fresh.run("tasks", "tasks.py", cwd=tmp_path))
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["mine.parquet", "mine.trl.jsonl"]


def test_serve_answers_with_scores(fresh, tmp_path):
    code = """
import json, urllib.request
from rovrl.tasks.serve import serving
with serving(lambda chats: [float(len(chat)) for chat in chats]) as address:
    body = json.dumps({"conversations": [[{"role": "user", "content": "hi"}]]}).encode()
    asked = urllib.request.Request(address, body, {"Content-Type": "application/json"})
    print(urllib.request.urlopen(asked).read().decode())
"""
    assert json.loads(ran(fresh.run("serve", "-c", code, cwd=tmp_path)))["scores"] == [1.0]


def test_docs_brings_what_the_site_is_built_with(fresh, tmp_path):
    ran(fresh.run("docs", "-c", "import latex2mathml, material, mkdocs, mkdocstrings_handlers.python", cwd=tmp_path))


def test_no_other_extra_is_promised(built):
    tested = {"report", "train", "tools", "verl", "tasks", "serve", "docs"}
    elsewhere = {"dev", "demo", "ms-swift"}  # this environment, a part of it, and the one of .ci/ms-swift
    assert set(metadata(built[0]).get_all("Provides-Extra")) == tested | elsewhere
