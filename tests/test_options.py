"""Options that are declared once: flags and keywords."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import pytest

from fairseq_normalign.options import (
    add_flags,
    declare,
    from_0,
    option,
    positive,
    read_options,
    share,
)


@dataclass(frozen=True)
class Options:
    limit: int | None = option(None, "N  take the first N (default: all)")
    average: str = option("macro", "macro|micro  of the ratios")
    methods: list = option(["norms"], "NAME...  soft methods, 100 % of them")
    bounds: tuple = option((), "X...  where groups begin")
    exact: bool = option(False, "no sampling", group="numbers")
    workers: int = option(1, "N  processes")
    gold: object = None  # no flag


def parsed(*words):
    parser = argparse.ArgumentParser()
    add_flags(parser, Options)
    return parser, read_options(Options, parser.parse_args(words), gold="x")


def test_flags_and_keywords_are_those_of_the_fields():
    parser, options = parsed("--limit", "3", "--methods", "norms", "weights", "--exact")
    assert options == Options(3, "macro", ["norms", "weights"], (), True, 1, "x")
    text = " ".join(parser.format_help().split())
    assert "(default: all)" in text
    assert "(default: )" not in text
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


TEXT = """
GOLD  gold links
[TARGET...]  other files
training: of the head
  -e --epochs N = 6  at most: it stops when held-out pairs
      get worse, 100 % of them
  --step input|output = input  which row
  --index 0|1  first word
  --size X = 10  gigabytes
  --method NAME... = norms weights  some
  --layer N = auto  one
  --category NAME=REGEX+  one each time
  --cpu  use no GPU
  -o --out-file FILE = required
      the file to write
"""
DEFAULTS = {
    **{"gold": "g", "target": [], "epochs": 6, "step": "input", "index": None, "size": 10},
    **{"method": ["norms", "weights"], "layer": "auto", "category": [], "out_file": "x"},
    "cpu": False,
}


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ("", {}),
        ("a b -e 3 --cpu", {"target": ["a", "b"], "epochs": 3, "cpu": True}),
        ("--index 1 --method lrp --layer 2", {"index": 1, "method": ["lrp"], "layer": "2"}),
        ("--category a=b --category c=d", {"category": ["a=b", "c=d"]}),
    ],
)
def test_options_that_are_declared_as_text(words, changes):
    parser = argparse.ArgumentParser()
    declare(parser, TEXT, layer=str, size=float)
    declare(parser, "training:\n  --more  of the same heading")
    args = parser.parse_args(["g", *words.split(), "-o", "x"])
    assert vars(args) == {**DEFAULTS, "more": False, **changes}
    text = " ".join(parser.format_help().split())
    assert (
        "training: of the head -e N, --epochs N at most: it stops when held-out pairs get" in text
    )
    assert "gigabytes (default: 10)" in text
    assert text.count("training:") == 1


@pytest.mark.parametrize("words", ["", "-o x -e 0", "-o x --step both", "-o x --index 2"])
def test_values_that_are_not_declared(words):
    parser = argparse.ArgumentParser(exit_on_error=False)
    declare(parser, TEXT, layer=str, size=float)
    with pytest.raises((argparse.ArgumentError, SystemExit)):
        parser.parse_args(["g", *words.split()])


def test_a_word_where_a_number_may_stand():
    parser = argparse.ArgumentParser(exit_on_error=False)
    declare(parser, "--index 0|1  first word")
    with pytest.raises(argparse.ArgumentError, match="'x': expected a number from 0"):
        parser.parse_args(["--index", "x"])
