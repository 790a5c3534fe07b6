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


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self):
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def lines(clock, total=None, title="relevance"):
    return progress.Lines(title, total=total, unit="pairs", pulse=progress.Pulse(clock))


@pytest.mark.parametrize(
    ("total", "done", "seconds", "line"),
    [
        (500, 120, 62, "relevance: 120 of 500 pairs, 24 %, 0:01:02 so far, 0:03:16 left"),
        (500, 500, 3723, "relevance: 500 of 500 pairs, 100 %, 1:02:03 so far"),
        (None, 120, 62, "relevance: 120 pairs, 0:01:02 so far"),
        (0, 0, 1, "relevance: 0 of 0 pairs, 0:00:01 so far"),
    ],
)
def test_line(total, done, seconds, line):
    clock = Clock()
    shown = lines(clock, total)
    shown.done = done
    clock.now += seconds
    assert shown.line() == line


def test_lines_come_every_half_minute(capsys):
    clock = Clock()
    shown = lines(clock, total=10)
    for _ in range(10):
        clock.now += 10
        shown.update()
    shown.close()
    told = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in told] == [
        "relevance: 3 of 10 pairs",
        "relevance: 6 of 10 pairs",
        "relevance: 9 of 10 pairs",
        "relevance: 10 of 10 pairs",
    ]


def test_terminal_shows_a_bar_with_the_time_left(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(progress, "DELAY", 0)
    with progress.bar("relevance", total=4, unit="pairs") as shown:
        shown.update(2)
        shown.refresh()
    text = terminal.getvalue()
    assert "relevance:  50%" in text
    assert " pairs" in text
    assert "<" in text  # elapsed<left


def test_quiet_shows_nothing(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with progress.quiet():
        assert list(progress.over(range(3))) == [0, 1, 2]
        with progress.quiet(False):
            assert progress.is_quiet()
    assert not progress.is_quiet()
    assert terminal.getvalue() == ""
