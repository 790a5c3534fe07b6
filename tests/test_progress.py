"""Progress: a bar on a terminal, lines elsewhere, nothing if quiet."""

import io

import pytest

from fairseq_normalign import progress

EVERY = progress.EVERY


@pytest.fixture(autouse=True)
def lines_of_progress(no_lines_of_progress, monkeypatch):
    monkeypatch.setattr(progress, "EVERY", EVERY)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_elsewhere(monkeypatch, capsys):
    """One for each state, and none of a run that is shorter than the time between two."""
    with progress.bar("relevance", total=4) as shown:
        shown.update(2)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(progress, "EVERY", 0)
    with progress.bar("relevance", total=4, unit="pairs") as shown:
        shown.update(2)
        shown.update(2)
    lines = [" ".join(line.split()[:3]) for line in capsys.readouterr().err.splitlines()]
    assert list(dict.fromkeys(lines)) == [
        *("relevance: 0% 0/4", "relevance: 50% 2/4", "relevance: 100% 4/4")
    ]


def test_quiet_shows_nothing(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with progress.quiet():
        assert list(progress.over(range(3))) == [0, 1, 2]
        with progress.quiet(False):
            assert progress.is_quiet()
    assert not progress.is_quiet()
    assert terminal.getvalue() == ""
