"""The command as the shell sees it: streams, signals, exit status, warnings."""

import errno
import re
import signal
import subprocess
import sys
import time
import types
import warnings

import pytest

from fairseq_normalign import progress
from fairseq_normalign.cli import main as entry
from fairseq_normalign.cli.main import main

NORMALIGN = [sys.executable, "-m", "fairseq_normalign.cli.main"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "gold").write_text("0-0 1-1\n")
    (tmp_path / "hyp").write_text("0-0 1-1\n")
    return tmp_path


def in_shell(folder, command, **options):
    """Runs a line of sh in which ``normalign`` is the command."""
    script = f'normalign() {{ "{sys.executable}" -m fairseq_normalign.cli.main "$@"; }}\n{command}'
    return subprocess.run(
        ["sh", "-c", script], cwd=folder, capture_output=True, text=True, check=False, **options
    )


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("aer gold -i hyp > /dev/full", "aer: stdout"),
        ("symmetrize -q gold hyp -o /dev/full", "symmetrize: /dev/full"),
        ("--help > /dev/full", "--help: stdout"),
    ],
)
def test_streams_that_fail_are_one_line(folder, command, message):
    done = in_shell(folder, f"normalign {command}")
    assert done.stderr.startswith(f"normalign {message}: cannot be written: No space left on dev")
    assert done.stderr.count("\n") == 1
    assert done.returncode == 2


def test_closed_streams_are_not_taken_by_files(folder):
    """What is printed does not end up in the output."""
    done = in_shell(folder, "normalign symmetrize gold hyp -o both <&- >&- 2>&-")
    assert done.returncode == 0
    assert (folder / "both").read_text() == "0-0 1-1\n"
    done = in_shell(folder, "normalign aer gold -i nowhere 2>&-")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")


def test_a_reader_that_has_seen_enough(folder):
    (folder / "long").write_text("0-0\n" * 50_000)
    done = in_shell(folder, "{ normalign symmetrize -q long long; echo $? >&2; } | head -n 1")
    assert (done.stdout, done.stderr) == ("0-0\n", "0\n")


@pytest.mark.parametrize(
    ("number", "status", "message"),
    [
        (signal.SIGINT, 130, "normalign symmetrize: interrupted\n"),
        (signal.SIGTERM, 143, ""),
        (signal.SIGHUP, 129, ""),
    ],
)
def test_signals_end_a_run_tidily(folder, number, status, message):
    with subprocess.Popen(
        [*NORMALIGN, "symmetrize", "-", "hyp", "-o", "both"],
        cwd=folder,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Shells ignore Ctrl-C, and nohup hangups, for what they run in the background.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    ) as run:
        for _ in range(600):
            if (folder / ".both.part").exists():
                break
            time.sleep(0.05)
        run.send_signal(number)
        error = run.stderr.read()
    assert (run.returncode, error) == (status, message)
    assert sorted(path.name for path in folder.iterdir()) == ["gold", "hyp"]


def command_of(monkeypatch, body):
    """Makes ``normalign aer`` a command that does what ``body`` does."""

    def parse_args(argv):
        return types.SimpleNamespace(quiet="-q" in argv)

    module = types.SimpleNamespace(parse_args=parse_args, main=lambda args: body())
    monkeypatch.setattr(entry.importlib, "import_module", lambda name: module)


def test_errors_of_our_own_keep_their_traceback(monkeypatch, capsys):
    def fail(*told):
        def body():
            raise OSError(errno.ENOENT, *told)

        command_of(monkeypatch, body)
        return main(["aer"])

    assert fail("No such file", "dict.txt") == 2
    assert capsys.readouterr().err == "normalign aer: dict.txt: No such file\n"
    with pytest.raises(FileNotFoundError):
        fail("No such file")


def test_a_warning_is_one_line_and_shown_once(monkeypatch, capsys):
    def warn():
        for _ in range(3):
            warnings.warn("the gold\n  looks misread", stacklevel=1)
        warnings.warn("the gold looks misread", stacklevel=2)
        warnings.warn("so does the text", stacklevel=2)

    command_of(monkeypatch, warn)
    before = warnings.showwarning
    assert main(["aer"]) == 0
    assert capsys.readouterr().err == (
        "normalign aer: warning: the gold looks misread\nnormalign aer: warning: so does the text\n"
    )
    assert warnings.showwarning is before


def test_quiet_commands_show_neither_warnings_nor_progress(monkeypatch, capsys):
    def work():
        warnings.warn("a file looks odd", stacklevel=2)
        assert progress.is_quiet()

    command_of(monkeypatch, work)
    assert main(["aer", "-q"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", entry.COMMANDS)
def test_help_shows_the_options_that_matter(command, capsys):
    shown = {}
    for option in ("--help", "--help-all"):
        with pytest.raises(SystemExit):
            main([command, option])
        shown[option] = re.findall(r"^  (?=-).*?(--[a-z-]+)", capsys.readouterr().out, re.M)
    assert {"--help", "--help-all", "--quiet"} <= set(shown["--help"]) <= set(shown["--help-all"])
    assert len(shown["--help"]) <= 20


def test_no_command_and_unknown_ones(capsys):
    assert main([]) == 2
    assert main(["--help"]) == 0
    assert capsys.readouterr().out.count("usage: normalign COMMAND") == 2
    assert main(["help"]) == 0
    assert capsys.readouterr().out.startswith("usage: normalign COMMAND")
    with pytest.raises(SystemExit, match="0"):
        main(["help", "aer"])
    assert capsys.readouterr().out.startswith("usage: normalign aer")
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("normalign ")
    assert main(["alignment"]) == 2
    assert "unknown command 'alignment'; did you mean align?" in capsys.readouterr().err
    assert main(["translate"]) == 2
    assert "unknown command 'translate'; see normalign --help" in capsys.readouterr().err
