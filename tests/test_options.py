"""Options that are declared once: flags and keywords."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import pytest

from fairseq_normalign.options import add_flags, from_0, option, positive, read_options, share


@dataclass(frozen=True)
class Options:
    limit: int | None = option(None, "take the first N (default: all)", positive, metavar="N")
    average: str = option("macro", "of the ratios", choices=("macro", "micro"))
    methods: list = option(["norms"], "soft methods, 100 % of them", many=True)
    exact: bool = option(False, "no sampling", group="numbers")
    workers: int = option(1, "processes", positive)
    gold: object = None  # no flag


def parsed(*words):
    parser = argparse.ArgumentParser()
    add_flags(parser, Options)
    return parser, read_options(Options, parser.parse_args(words), gold="x")


def test_flags_and_keywords_are_those_of_the_fields():
    parser, options = parsed("--limit", "3", "--methods", "norms", "weights", "--exact")
    assert options == Options(3, "macro", ["norms", "weights"], True, 1, "x")
    text = " ".join(parser.format_help().split())
    assert "(default: all)" in text
    assert "numbers:" in text


def test_defaults():
    assert parsed()[1] == Options(gold="x")


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (positive, {"1": 1}, ["0", "-1", "1.5", "²", "9999999999"]),
        (from_0, {"0": 0}, ["-1", "x"]),
        (share, {"0.5": 0.5}, ["1.1", "nan"]),
    ],
)
def test_numbers(kind, good, bad):
    for text, value in good.items():
        assert kind(text) == value
    for text in bad:
        with pytest.raises(argparse.ArgumentTypeError, match="expected a number from"):
            kind(text)
