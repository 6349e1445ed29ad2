"""The frame of the command line: help without heavy imports, sentences on errors, exit statuses."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import rovrl
from rovrl import cli
from rovrl.errors import RovrlError


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """A registry with one command of each temper."""
    (tmp_path / "cmd_fine.py").write_text(
        "EXAMPLE = 'example:\\n  rovrl fine --times 3'\n"
        "def add_arguments(parser): parser.add_argument('--times', type=int, default=1)\n"
        "def run(args): print('fine ' * args.times); return 0\n"
    )
    (tmp_path / "cmd_sad.py").write_text(
        "from rovrl.errors import RovrlError\n"
        "def add_arguments(parser): pass\n"
        "def run(args): raise RovrlError('no rewards in x.json: give a file with a column reward')\n"
    )
    (tmp_path / "cmd_lost.py").write_text(
        "from rovrl.errors import RovrlError\nraise RovrlError('this needs a package')\n"
    )
    (tmp_path / "cmd_stopped.py").write_text(
        "def add_arguments(parser): pass\ndef run(args): raise KeyboardInterrupt\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    table = {name: (f"cmd_{name}", f"the {name} one") for name in ("fine", "sad", "lost", "stopped")}
    monkeypatch.setattr(cli, "COMMANDS", table)
    yield table
    for name in table:
        sys.modules.pop(f"cmd_{name}", None)


def test_without_words_the_commands_are_listed(commands, capsys):
    assert cli.main([]) == 0
    out = capsys.readouterr().out
    assert all(f"the {name} one" in out for name in commands)
    assert not any(f"cmd_{name}" in sys.modules for name in commands)


def test_a_command_runs_and_its_status_is_returned(commands, capsys):
    assert cli.main(["fine", "--times", "2"]) == 0
    assert "fine fine" in capsys.readouterr().out


def test_the_help_of_a_command_shows_its_example(commands, capsys):
    with pytest.raises(SystemExit) as leaving:
        cli.main(["fine", "--help"])
    assert leaving.value.code == 0
    out = capsys.readouterr().out
    assert "rovrl fine --times 3" in out
    assert "the fine one" in out


def test_an_error_for_the_user_is_one_sentence_and_status_two(commands, capsys):
    assert cli.main(["sad"]) == 2
    captured = capsys.readouterr()
    assert captured.err == "rovrl: no rewards in x.json: give a file with a column reward\n"
    assert captured.out == ""


def test_a_command_whose_packages_are_missing_says_so_with_status_two(commands, capsys):
    assert cli.main(["lost"]) == 2
    assert capsys.readouterr().err == "rovrl: this needs a package\n"


def test_an_interrupt_is_status_130_and_no_traceback(commands, capsys):
    assert cli.main(["stopped"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_an_interrupted_command_that_resumes_says_how(commands, monkeypatch, capsys):
    monkeypatch.setattr(cli, "RESUMABLE", ("stopped",))
    assert cli.main(["stopped"]) == 130
    assert "To go on: rovrl stopped" in capsys.readouterr().err


def test_debug_shows_the_traceback_behind_a_sentence(commands):
    with pytest.raises(RovrlError, match="no rewards in"):
        cli.main(["--debug", "sad"])


def test_the_version_and_the_help_need_neither_torch_nor_numpy():
    code = "import sys; from rovrl import cli; cli.main(['--help']) if len(sys.argv) < 2 else cli.main(['--version'])"
    for words in ([], ["version"]):
        script = f"import sys, atexit; atexit.register(lambda: print({{'torch', 'numpy'}} & set(sys.modules))); {code}"
        done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, timeout=300)
        assert done.stdout.endswith("set()\n"), done.stdout + done.stderr


def test_the_package_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "rovrl", "--version"], capture_output=True, text=True, timeout=300)
    assert done.stdout == f"rovrl {rovrl.__version__}\n"


def test_an_unknown_command_is_status_two_and_lists_the_known_ones(commands, capsys):
    with pytest.raises(SystemExit) as leaving:
        cli.main(["trian"])
    assert leaving.value.code == 2
    assert "there is no command 'trian'; they are fine, sad, lost, stopped" in capsys.readouterr().err


def test_a_mistyped_command_gets_a_hint_before_the_list(capsys):
    with pytest.raises(SystemExit) as leaving:
        cli.main(["--debug", "trian", "--config", "run.yaml"])
    assert leaving.value.code == 2
    assert "there is no command 'trian'; did you mean train" in capsys.readouterr().err


def test_every_registered_command_has_help_with_an_example(capsys):
    assert cli.COMMANDS
    for name in cli.COMMANDS:
        with pytest.raises(SystemExit) as leaving:
            cli.main([name, "--help"])
        assert leaving.value.code == 0, name
        assert f"rovrl {name}" in capsys.readouterr().out.split("usage:")[1].split("\n", 1)[1], f"{name} has no example"


def test_the_console_script_answers_an_unknown_command_with_its_commands_and_status_two():
    script = Path(sys.executable).parent / "rovrl"
    unknown = subprocess.run([script, "no-such-command"], capture_output=True, text=True, timeout=300)
    assert unknown.returncode == 2
    assert all(name in unknown.stderr for name in cli.COMMANDS)
    assert "Traceback" not in unknown.stderr
