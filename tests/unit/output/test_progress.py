"""Progress on a terminal and elsewhere."""

import io

from rovrl.output import progress
from rovrl.output.progress import Lines, bars, counted, progress_bar


class Terminal(io.StringIO):
    def isatty(self):
        return True


def terminal(monkeypatch):
    """In the test itself, not a fixture: pytest puts its own standard error in place between the two."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    for name in ("NO_COLOR", "TTY_COMPATIBLE", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    return screen


def test_a_terminal_shows_the_stage_and_how_much_is_done(monkeypatch):
    screen = terminal(monkeypatch)
    with progress_bar("reading") as tell:
        tell(3, 7)
        tell(7, 7)
        tell(5, 5, "group statistics")
    assert "reading" in screen.getvalue()
    assert "7/7" in screen.getvalue()
    assert "group statistics" in screen.getvalue()


def test_elsewhere_short_work_is_silent(capsys):
    with progress_bar("reading") as tell:
        for done in range(100):
            tell(done + 1, 100)
    assert capsys.readouterr() == ("", "")


def test_elsewhere_long_work_writes_a_line_now_and_then(capsys):
    seconds = iter([0.0, 29.0, 31.0, 32.0, 62.0])
    tell = Lines("reading", clock=lambda: next(seconds))
    for done in range(1, 5):
        tell(done, 9, "group statistics" if done > 3 else "")
    assert capsys.readouterr().err == "reading: 2 of 9\ngroup statistics: 4 of 9\n"


def test_without_rich_a_terminal_gets_plain_lines(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(name)

    terminal(monkeypatch)
    monkeypatch.setattr(progress.importlib, "import_module", missing)
    with bars() as shown:
        assert shown is None


def test_counts_are_added_up():
    told = []
    more = counted(lambda *words: told.append(words), 9, "responses")
    for count in (2, 0, 4):
        more(count)
    assert told == [(2, 9, "responses"), (2, 9, "responses"), (6, 9, "responses")]
