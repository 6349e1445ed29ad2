"""`import rovrl` is light, complete, and the built wheel is the same package."""

import json
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import rovrl

ROOT = Path(__file__).parents[2]
HEAVY = [
    "torch",
    "numpy",
    "trl",
    "verl",
    "transformers",
    "ray",
    "matplotlib",
    "pandas",
    "datasets",
    "scipy",
    "numba",
    "pyarrow",
    "rich",
]
PUBLIC = [
    "RewardChannel", "RatioChannel", "RewardRun", "Blocks", "m_center", "REFERENCES", "rovr", "soft_rovr", "ADVANTAGES",
    "grouped_advantages", "clipped_objective", "clip_branch", "contrast", "guarantees",
]  # fmt: skip


def python(code, *flags, cwd=None, executable=sys.executable):
    return subprocess.run([executable, *flags, "-c", code], capture_output=True, text=True, cwd=cwd, timeout=300)


def test_importing_rovrl_loads_not_even_torch():
    done = python(f"import rovrl, sys, json; print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))")
    assert json.loads(done.stdout) == []


@pytest.mark.slow
def test_every_public_name_loads_nothing_heavier_than_torch_and_leaves_torchs_state_alone():
    code = (
        "import json, sys, torch\n"
        "torch.manual_seed(3)\n"
        "before, threads = torch.get_rng_state(), torch.get_num_threads()\n"
        "import rovrl\n"
        "[getattr(rovrl, name) for name in rovrl.__all__]\n"
        "assert torch.equal(torch.get_rng_state(), before)\n"
        "assert torch.get_default_dtype() == torch.float32 and torch.get_num_threads() == threads\n"
        f"print(json.dumps([m for m in {HEAVY[2:]!r} if m in sys.modules]))"
    )
    done = python(code)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []
    assert done.stderr == ""


def test_every_public_name_of_the_contract_is_there():
    missing = [name for name in PUBLIC if not hasattr(rovrl, name)]
    assert missing == []
    assert set(PUBLIC) <= set(rovrl.__all__)


def test_the_version_is_the_one_of_the_distribution():
    from importlib.metadata import version

    assert rovrl.__version__ == version("rovrl")


@pytest.mark.slow
def test_the_wheel_builds_and_works_in_an_empty_environment(tmp_path):
    """Built without network, unpacked into a fresh venv that sees this one's torch, and used from elsewhere."""
    source = tmp_path / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path / "dist", source]
    built = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = (tmp_path / "dist").glob("rovrl-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "rovrl/py.typed" in names
    assert not [n for n in names if n.startswith(("tests", "benchmarks", "examples"))]
    sources = {str(p.relative_to(ROOT / "src")) for p in (ROOT / "src").rglob("*.py")}
    assert sources <= set(names)

    home = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True, timeout=300)
    python_there = home / "bin" / "python"
    where = python("import sysconfig; print(sysconfig.get_paths()['purelib'])", executable=python_there).stdout.strip()
    zipfile.ZipFile(wheel).extractall(where)
    # the dependencies of this environment, but not its editable rovrl
    (Path(where) / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    code = (
        "import rovrl, torch\n"
        f"assert rovrl.__file__.startswith({str(home)!r}), rovrl.__file__\n"
        "x = torch.tensor([1.0, 0.0] * 7 + [1.0, 1000.0], dtype=torch.float64)\n"
        "print(rovrl.ADVANTAGES['credit'](x, rovrl.RewardChannel()).abs().max().item() <= 4)\n"
        "print(rovrl.soft_rovr(torch.full((9,), 0.25)).item())\n"
    )
    done = python(code, cwd=tmp_path, executable=python_there)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", "0.25"]
    command = python("from rovrl.cli import main; main(['--help'])", cwd=tmp_path, executable=python_there)
    assert command.returncode == 0
    assert "COMMAND" in command.stdout
