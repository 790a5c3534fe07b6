import sys

import pytest
import torch
from fairseq import options
from torch.multiprocessing import ProcessRaisedException

import fairseq_normalign.plugin  # noqa: F401  (registers)
from fairseq_normalign.errors import InputError, MissingSubset
from fairseq_normalign.plugin.fairseq_commands import bad_input, report_bad_input

L0 = "label_smoothed_cross_entropy_l0"


@pytest.fixture
def command(monkeypatch):
    """A command of fairseq's in which our hook is installed, and the tracebacks it shows."""
    shown = []
    monkeypatch.setattr(sys, "excepthook", lambda *error: shown.append(error[1]))
    monkeypatch.setattr(sys, "argv", ["/somewhere/fairseq-train", "data"])
    monkeypatch.setitem(sys.modules, "fairseq_cli", torch)
    report_bad_input()
    return shown


@pytest.mark.parametrize("kind", [InputError, MissingSubset])
def test_bad_input_is_one_line_and_status_2(command, capsys, kind):
    error = kind("x.pt: no such checkpoint")
    with pytest.raises(SystemExit, match="2"):
        sys.excepthook(kind, error, None)
    assert capsys.readouterr().err == "fairseq-train: x.pt: no such checkpoint\n"
    assert not command


@pytest.mark.parametrize("error", [ValueError("x"), RuntimeError(), KeyboardInterrupt()])
def test_other_errors_keep_their_tracebacks(command, capsys, error):
    sys.excepthook(type(error), error, None)
    assert command == [error]
    assert capsys.readouterr().err == ""


def fail(rank: int, kind: str) -> None:
    if kind == "other":
        raise RuntimeError("something else")
    raise MissingSubset("no such subset")


@pytest.mark.parametrize(("kind", "message"), [("input", "no such subset"), ("other", None)])
def test_of_a_parallel_training(kind, message):
    with pytest.raises(ProcessRaisedException) as raised:
        torch.multiprocessing.start_processes(fail, (kind,), nprocs=1, start_method="fork")
    assert bad_input(raised.value) == message


def test_of_a_worker_that_loads_data():
    """PyTorch puts the traceback into the message."""
    text = "Caught InputError in DataLoader worker process 0.\nOriginal Traceback (most recent…\n"
    error = InputError(f"{text}fairseq_normalign.errors.InputError: line 3: too long\n")
    assert bad_input(error) == "line 3: too long"


@pytest.mark.parametrize(
    ("parser", "chosen", "shown"),
    [
        ("generation", ["--task", "translation_normalign"], "--align-method"),
        ("training", ["--arch", "transformer_normalign"], "--gate-heads"),
        ("training", ["-a", "transformer_normalign_tiny"], "--alive-heads"),
        ("training", ["--criterion", L0], "--target-heads"),
    ],
)
def test_help_shows_the_options_of_what_is_chosen(parser, chosen, shown, monkeypatch, capsys):
    argv = ["data-bin", *chosen, "--help"]
    monkeypatch.setattr("sys.argv", ["fairseq-command", *argv])
    with pytest.raises(SystemExit):
        options.parse_args_and_arch(getattr(options, f"get_{parser}_parser")())
    assert shown in capsys.readouterr().out


TRAIN = "--arch transformer_iwslt_de_en --optimizer adam"


@pytest.mark.parametrize(
    ("parser", "argv", "message"),
    [
        ("training", f"{TRAIN} --gate-heads all", "--gate-heads needs --arch transformer_normal"),
        ("training", f"{TRAIN} --target-heads=18", f"--target-heads needs --criterion {L0}"),
        ("interactive_generation", "--path x --align-words none", "--align-words needs --task tra"),
    ],
)
def test_an_option_of_ours_names_what_it_belongs_to(parser, argv, message, monkeypatch):
    monkeypatch.setattr("sys.argv", ["fairseq-command", "data-bin", *argv.split()])
    with pytest.raises(InputError, match=f"^{message}"):
        options.parse_args_and_arch(getattr(options, f"get_{parser}_parser")())
