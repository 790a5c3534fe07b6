"""``--help`` of fairseq's commands with the plugin."""

import pytest
from fairseq import options

import fairseq_normalign.plugin  # noqa: F401  (registers)
from fairseq_normalign.errors import InputError


@pytest.mark.parametrize(
    ("parser", "chosen", "shown"),
    [
        ("get_generation_parser", ["--task", "translation_normalign"], "--align-method"),
        ("get_training_parser", ["--arch", "transformer_normalign"], "--gate-heads"),
        ("get_training_parser", ["-a", "transformer_normalign_tiny"], "--alive-heads"),
        (
            "get_training_parser",
            ["--criterion", "label_smoothed_cross_entropy_l0"],
            "--target-heads",
        ),
    ],
)
def test_help_shows_the_options_of_what_is_chosen(parser, chosen, shown, monkeypatch, capsys):
    argv = ["data-bin", *chosen, "--help"]
    monkeypatch.setattr("sys.argv", ["fairseq-command", *argv])
    with pytest.raises(SystemExit):
        options.parse_args_and_arch(getattr(options, parser)())
    assert shown in capsys.readouterr().out


TRAIN = "--arch transformer_iwslt_de_en --optimizer adam"


@pytest.mark.parametrize(
    ("parser", "argv", "message"),
    [
        (
            "get_training_parser",
            f"{TRAIN} --gate-heads all",
            "--gate-heads needs --arch transformer_normalign",
        ),
        (
            "get_training_parser",
            f"{TRAIN} --target-heads=18",
            "--target-heads needs --criterion label_smoothed_cross_entropy_l0",
        ),
        (
            "get_interactive_generation_parser",
            "--path x.pt --align-words none",
            "--align-words needs --task translation_normalign",
        ),
    ],
)
def test_an_option_of_ours_names_what_it_belongs_to(parser, argv, message, monkeypatch):
    monkeypatch.setattr("sys.argv", ["fairseq-command", "data-bin", *argv.split()])
    with pytest.raises(InputError, match=f"^{message}"):
        options.parse_args_and_arch(getattr(options, parser)())
