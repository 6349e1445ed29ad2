"""The fault matrix can be stopped: what is finished is kept, and never mixed with another code; wrong words are refused."""

import json

import pytest

from rovrl_paper.fault_matrix import command, matrix

TABLES = "\n\nBetween.\n\n".join(f"<!-- {name} -->\nold\n<!-- end of {name} -->" for name in ("matrix", "honest"))
PAGE = f"Before.\n\n{TABLES}\n\nAfter.\n"


@pytest.fixture
def few(monkeypatch, tmp_path):
    """Two faults of one world and two worlds of one shape, in an empty directory."""
    monkeypatch.setattr(matrix, "PLANTED", ("rule",))
    monkeypatch.setattr(
        matrix, "FAULTS", {name: matrix.FAULTS[name] for name in ("grader stuck, 4 steps", "NaN rewards, 5 %")}
    )
    monkeypatch.setattr(matrix, "HONEST", {name: matrix.HONEST[name] for name in ("rule", "heavy")})
    monkeypatch.setattr(matrix, "SIZES", (8,))
    monkeypatch.setattr(matrix, "SHAPES", ((12, 4),))
    monkeypatch.chdir(tmp_path)


def test_both_tables_are_printed_and_put_between_their_marks_and_nothing_else_is_left(few, tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    assert command.main(["--seeds", "2", "--first", "7", "--write", str(page)]) == 0
    printed, text = capsys.readouterr().out, page.read_text()
    assert "| NaN rewards, 5 % | `nonfinite_rewards` | 100 % |" in text
    assert "2 runs per cell, seeds 7 to 8." in text
    assert "| heavy | 0 of 2, 0 of 2 |" in text
    assert text.startswith("Before.\n\n<!-- matrix -->\n| fault |")
    assert text.endswith("<!-- end of honest -->\n\nAfter.\n")
    assert "old" not in text
    assert all(part.strip() in text for part in printed.split("\n\n"))
    assert [path.name for path in tmp_path.iterdir()] == ["page.md"]


def test_a_matrix_that_was_stopped_goes_on_and_ends_with_the_same_tables(few, tmp_path, capsys, monkeypatch):
    assert command.main(["--seeds", "1", "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    made, plain = [], matrix.planted

    def stopped(world, fault, seeds):
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append(fault)
        return plain(world, fault, seeds)

    monkeypatch.setattr(matrix, "planted", stopped)
    assert command.main(["--seeds", "1", "--json"]) == 130
    assert "kept in fault-matrix-0-1.jsonl: the same command goes on" in capsys.readouterr().err
    with open("fault-matrix-0-1.jsonl", "a") as file:
        file.write('{"cell": ["mat')  # as a kill leaves it
    made.clear()
    assert command.main(["--seeds", "1", "--json"]) == 0
    assert made == [list(matrix.FAULTS)[-1]]
    assert json.loads(capsys.readouterr().out) == whole
    assert list(tmp_path.iterdir()) == []


def test_cells_of_another_code_are_never_mixed_in(few, capsys, monkeypatch, tmp_path):
    with monkeypatch.context() as other:
        other.setattr(command, "code", lambda: "another")
        command.Kept(tmp_path / "fault-matrix-0-1.jsonl", range(1))
    assert command.main(["--seeds", "1"]) == 2
    assert "holds cells of other seeds or of another code: delete it" in capsys.readouterr().err
    assert command.main(["--seeds", "1", "--keep", "mine.jsonl"]) == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--seeds", "0"], "--seeds needs at least 1 run per cell, not 0"),
        (["--first", "-1"], "--first needs a seed of 0 or more, not -1"),
        (["--write", "missing.md"], "missing.md is none"),
        (["--write", "README.md"], "README.md has not all of them"),
        (["--worlds", "heavy,hevy"], "--worlds knows no 'hevy'; the worlds are rule, heavy"),
        (["--worlds", "heavy", "--write", "README.md"], "--write fills whole tables"),
        (["--keep", "missing/cells.jsonl"], "name another file with --keep"),
    ],
)
def test_a_word_that_cannot_be_is_refused_in_one_sentence_before_any_work(few, tmp_path, words, sentence, capsys):
    (tmp_path / "README.md").write_text("# A page without marks\n")
    assert command.main(words) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


def test_one_world_can_be_looked_at_alone(few, capsys):
    assert command.main(["--seeds", "1", "--worlds", "heavy", "--json"]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert alone["rows"] == []  # no fault is planted in it here
    assert [row["world"] for row in alone["honest"]] == ["heavy"]
    assert command.main(["--seeds", "1", "--worlds", "heavy"]) == 0
    printed = capsys.readouterr().out
    assert "| heavy | 0 of 1, 0 of 1 |" in printed
    assert "rule" not in printed
    assert printed.startswith("| honest world |")


def test_the_page_says_which_seeds_and_a_number_of_runs_below_one_is_refused(few, capsys):
    assert command.main(["--seeds", "1", "--first", "3"]) == 0
    assert "1 runs per cell, seeds 3 to 3." in capsys.readouterr().out
    assert command.main(["--seeds", "-1"]) == 2
    assert "--seeds needs at least 1 run per cell, not -1" in capsys.readouterr().err


def test_the_help_shows_an_example(capsys):
    with pytest.raises(SystemExit, match="0"):
        command.main(["--help"])
    assert "--write docs/audit-faults.md" in capsys.readouterr().out
