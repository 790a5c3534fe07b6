"""Sentences of 0, 1 and 2,000 words through every command that reads a corpus.

A model takes 64 tokens: what is longer is refused, skipped or cut off, and never silently.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from fairseq_normalign.cli.main import COMMANDS
from tests.conftest import run
from tests.fuzz_commands import CORPUS, LINES, parser_of, write_files

LONG = 5  # the line that is too long, from 1
MORE = {  # so that few sentences are enough
    "evolution": "--types 3 --occurrences 11 --tokens 160 --groups 2",
    "prune": "data --source-file text.a --target-file text.b --keep-top 5 --by confidence",
}


def has_option(name: str, option: str) -> bool:
    return any(option in action.option_strings for action in parser_of(name)._actions)


# probe reads a treebank.
SIGNED = ("align", "heads", "mixing", "stats", "evolution", "methods")
READING = [name for name in COMMANDS if has_option(name, "--too-long") and name != "probe"]


def fast_first(names: list[str]) -> list:
    return [
        name if name in ("align", "heads") else pytest.param(name, marks=pytest.mark.slow)
        for name in names
    ]


def texts(side: str) -> list[str]:
    maker = random.Random(side)
    lengths = [3, 0, 1, 6, 2000, *(maker.randint(3, 12) for _ in range(40))]
    if side == "b":
        lengths[0], lengths[5] = 0, 1  # a source without a target, and a short one
    return [" ".join(f"w{maker.randrange(12)}" for _ in range(length)) for length in lengths]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("lengths")
    write_files(folder)
    for side in "ab":
        (folder / f"text.{side}").write_text("".join(f"{line}\n" for line in texts(side)))
    for name in ("links.pharaoh", "gold.talp"):
        (folder / name).write_text("\n" * 3 + "0-0 1-1\n" + "\n" + "0-0\n" * 40)
    return folder


@pytest.fixture(autouse=True)
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)


def line_of(name: str) -> list[str]:
    words = LINES.get(name, CORPUS)
    if name == "prune":
        words = "--path model.pt --cpu --out pruned.pt"
    if name == "plot":
        words = words.replace("--line 1", "--line 4")
    return [name, *f"{words} {MORE.get(name, '')}".split()]


@pytest.mark.parametrize("name", fast_first(READING))
def test_fail_is_the_default_and_names_the_line(name):
    done = run("normalign", *line_of(name), check=False)
    assert done.returncode == 2, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"normalign {name}: line {LONG}: the source has 2001 pieces with </s>; ")
    assert last.endswith("the model takes 64")


@pytest.mark.parametrize("name", fast_first(READING))
def test_skip_and_truncate_tell_the_line(name):
    policy, told = ("truncate", "cut off") if name == "heads" else ("skip", "skipped")
    done = run("normalign", *line_of(name), "--too-long", policy)
    assert f"1 pair longer than the model takes {told}: line {LONG}" in done.stderr
    assert (f"|too-long:{policy}" in done.stderr) == (name in SIGNED)
    assert "nan" not in done.stdout.lower().split()
    if name == "align":
        lines = done.stdout.split("\n")
        assert len(lines) == len(texts("a")) + 1
        assert [line == "" for line in lines[:LONG]] == [True, True, False, False, True]


@pytest.mark.parametrize("name", fast_first(READING))
def test_nothing_but_empty_lines(name, folder):
    """A result, or one line: no division by their number."""
    (folder / "blank").write_text("\n\n\n")
    line = [{"text.a": "blank", "text.b": "blank"}.get(word, word) for word in line_of(name)]
    done = run("normalign", *line, check=False)
    assert done.returncode in (0, 2)
    assert "nan" not in done.stdout.lower().split()
    if done.returncode == 2:
        assert done.stderr.splitlines()[-1].startswith(f"normalign {name}: ")
