"""Sums that are kept while a run lasts, and what is refused."""

import numpy as np
import pytest

from fairseq_normalign.errors import InputError
from fairseq_normalign.progress import quiet
from fairseq_normalign.runs.sums import EVERY, Sums, SumsFolder

COMMAND = {"command": "add", "--path": "best.pt (1f)"}
NUMBERS = [0.1, 0.2, 0.3, 0.4, 0.5]


class Total:
    KEPT = ("total", "added")

    def __init__(self):
        self.total, self.added = np.zeros(1), 0


class Clock:
    """Goes on by so many seconds whenever it is asked."""

    def __init__(self, tick):
        self.now, self.tick = 0.0, tick

    def __call__(self):
        self.now += self.tick
        return self.now


def text(number):
    return f"{number}\n".encode()


def add_up(output, numbers=NUMBERS, *, stop=None, tick=EVERY, command=COMMAND, **options):
    """The sum, how many were added in this run, and how many are told of; or stops before one."""
    total, new, told = Total(), 0, []
    with SumsFolder(output, command, clock=Clock(tick), **options) as folder:
        this_pass = Sums(folder).begin("numbers", [total])
        for number in this_pass.over(numbers, text=text, progress=told.append):
            if number == stop:
                raise KeyboardInterrupt
            total.total += number
            total.added += 1
            new += 1
        left = this_pass.left(len(numbers))
    assert left == new == sum(told)
    return float(total.total[0]), new


def stopped(output, stop=0.4, **options):
    with pytest.raises(KeyboardInterrupt):
        add_up(output, stop=stop, **options)
    return output


def test_a_run_goes_on_with_the_steps_that_are_left(tmp_path, capsys):
    output = stopped(tmp_path / "out")
    assert (tmp_path / "out.run" / "sums-numbers").exists()
    assert add_up(output) == (add_up(tmp_path / "other")[0], 2)
    assert "numbers: 3 pairs were done before\n" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())  # what is kept is removed at the end


def test_what_was_done_before_is_not_told_quietly(tmp_path, capsys):
    stopped(tmp_path / "out")
    with quiet():
        add_up(tmp_path / "out")
    assert capsys.readouterr().err == ""


def test_a_short_run_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(SumsFolder, "open", None)  # cannot be called
    add_up(tmp_path / "out", tick=1.0)
    stopped(tmp_path / "out", tick=1.0)
    assert not list(tmp_path.iterdir())


def test_sums_are_kept_once_a_minute_and_at_the_end_of_a_pass(tmp_path, monkeypatch):
    kept = []
    keep = SumsFolder.keep

    def noted(self, name, contents):
        kept.append(contents.steps)
        keep(self, name, contents)

    monkeypatch.setattr(SumsFolder, "keep", noted)
    add_up(tmp_path / "out", [*range(10)], tick=EVERY / 4)
    assert kept == [4, 8, 10]


def test_a_pass_that_is_done_is_not_done_again(tmp_path):
    total = Total()
    with (
        pytest.raises(KeyboardInterrupt),
        SumsFolder(tmp_path / "out", COMMAND, clock=Clock(EVERY)) as folder,
    ):
        for number in Sums(folder, 1).begin("numbers", [total]).over(NUMBERS, text=text):
            total.total += number
        raise KeyboardInterrupt
    with SumsFolder(tmp_path / "out", COMMAND) as folder:
        again, other = Total(), Total()
        assert Sums(folder, 1).before("numbers") == 5
        assert list(Sums(folder, 1).begin("numbers", [again]).over(NUMBERS, text=text)) == []
        assert again.total == total.total
        assert list(Sums(folder, 2).begin("numbers", [other]).over(NUMBERS, text=text)) == NUMBERS


def test_another_command_or_text_is_refused_until_restart(tmp_path):
    output = stopped(tmp_path / "out")
    with pytest.raises(InputError, match=r"was begun with --path best.pt \(1f\), and this run is"):
        add_up(output, command={**COMMAND, "--path": "last.pt"})
    for others in ([0.1, 0.9, 0.3, 0.4], [0.1, 0.2]):
        with pytest.raises(InputError, match=r"numbers was done in part before, of another text"):
            add_up(output, others)
    assert add_up(output, others, restart=True) == (pytest.approx(0.3), 2)


def test_an_error_of_the_user_tells_what_is_kept(tmp_path):
    with (
        pytest.raises(InputError, match=r"line 7 \(what was done is kept in .*out.run\)"),
        SumsFolder(tmp_path / "out", COMMAND, clock=Clock(EVERY)) as folder,
    ):
        list(Sums(folder).begin("numbers", [Total()]).over(NUMBERS, text=text))
        raise InputError("line 7")


@pytest.mark.parametrize("damage", [b"", b"{", b"[]\n", b"\xff\n", None])
def test_damaged_sums_are_not_there(tmp_path, damage):
    output = stopped(tmp_path / "out")
    path = tmp_path / "out.run" / "sums-numbers"
    path.write_bytes(path.read_bytes()[:-3] if damage is None else damage)
    assert add_up(output) == (pytest.approx(1.5), 5)


def test_sums_of_another_run_are_refused(tmp_path):
    output = stopped(tmp_path / "out")
    stopped(tmp_path / "other", command={**COMMAND, "--path": "last.pt"})
    foreign = tmp_path / "other.run" / "sums-numbers"
    (tmp_path / "out.run" / "sums-numbers").write_bytes(foreign.read_bytes())
    with pytest.raises(InputError, match="sums-numbers: is of another run"):
        add_up(output)


def test_two_runs_at_once(tmp_path):
    stopped(tmp_path / "out")
    with SumsFolder(tmp_path / "out", COMMAND):
        with pytest.raises(InputError, match="/out: another run is at work on it"):
            add_up(tmp_path / "out")
        assert (tmp_path / "out.run" / "sums-numbers").exists()


def test_a_holder_that_does_not_say_what_to_keep(tmp_path):
    with SumsFolder(tmp_path / "out", COMMAND, clock=Clock(EVERY)) as folder:
        this_pass = Sums(folder).begin("numbers", [object()])
        assert list(this_pass.over(NUMBERS, text=text)) == NUMBERS
        assert not list(tmp_path.iterdir())


def test_nothing_is_kept_nowhere():
    total = Total()
    this_pass = Sums().begin("numbers", [total])
    assert list(this_pass.over(NUMBERS, text=text)) == NUMBERS
    assert Sums().before("numbers") == 0
