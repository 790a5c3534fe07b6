"""``--help`` of fairseq's commands with the plugin."""

import pytest
from fairseq import options

import fairseq_normalign.plugin  # noqa: F401  (registers)


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


def test_help_without_a_choice_is_fairseqs_own(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["fairseq-generate", "--help"])
    with pytest.raises(SystemExit):
        options.parse_args_and_arch(options.get_generation_parser())
    assert "--align-method" not in capsys.readouterr().out
