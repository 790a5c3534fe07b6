"""The comparison with statistical aligners: executables that only pretend to be them, and ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import compare_aligners
import pytest
import statistical_aligners
from statistical_aligners import ALIGNERS, HEURISTIC, UnavailableError

from fairseq_normalign.results.result import read_result

# The i-th word of one side with the i-th of the other, in either direction; the reverse direction
# lacks the first link.
PRETENDED = """#!{python}
import sys
option = dict(zip(sys.argv[2::2], sys.argv[3::2]))
sides = [open(option[name]).read().splitlines() for name in ("-s", "-t")]
with open(option["-f"], "w") as forward, open(option["-r"], "w") as reverse:
    for here, there in zip(*sides):
        size = min(len(here.split()), len(there.split()))
        print(*(f"{{i}}-{{i}}" for i in range(size)), file=forward)
        print(*(f"{{i}}-{{i}}" for i in range(1, size)), file=reverse)
with open(__file__ + ".runs", "a") as runs:
    print(len(sides[0]), file=runs)
"""
TEXT = {
    "train.de": "ein haus\n\ndas haus\n",
    "train.en": "a house\nnothing\nthe house\n",
    "test.de": "das haus steht\nja\n",
    "test.en": "the house stands\nyes\n",
    "test.talp": "1-1 2-2 3-3\n1-1\n",
}


@pytest.fixture
def folder(tmp_path) -> Path:
    """Text, and an environment with a pretended eflomal."""
    for name, text in TEXT.items():
        (tmp_path / name).write_text(text)
    program = tmp_path / "environment/bin/eflomal-align"
    program.parent.mkdir(parents=True)
    program.write_text(PRETENDED.format(python=sys.executable))
    program.chmod(0o755)
    (tmp_path / "environment" / f"installed-{ALIGNERS['eflomal'].package}").touch()
    return tmp_path


def compare(folder: Path, *options) -> int:
    words = ["--train", folder / "train", "--test", folder / "test", "-s", "de", "-t", "en"]
    words += ["--gold", folder / "test.talp", "--gold-index", 1, "--out", folder / "out"]
    words += ["--environment", folder / "environment", *options]
    return compare_aligners.main([str(word) for word in words])


def test_table_of_an_aligner(folder, capsys):
    assert compare(folder, "--aligners", "eflomal") == 0
    out, err = capsys.readouterr()
    heading, bitext, forward, reverse, both, note, ranks = out.splitlines()
    assert " ".join(heading.split()) == "system AER 95 % even P R links gain seconds"
    assert " ".join(forward.split()[:-2]) == "eflomal, forward 0.0 0.0–0.0 0.0 100.0 100.0 4"
    assert ranks.startswith("Rank correlation (Spearman) of gain and AER over 10 systems: ")
    assert bitext.startswith("bitext, no model")
    # Of the four sure links, the reverse direction has two: 1 − (2 + 2) / (2 + 4).
    assert reverse.split()[2] == "33.3"
    # The union adds what joins two free words.
    assert both.split()[:2] == ["eflomal,", HEURISTIC]
    assert both.split()[2] == "0.0"
    assert note == compare_aligners.NOTE
    assert "train: 1 pairs with an empty side are left out" in err
    assert (folder / "out/eflomal/forward").read_text() == "0-0 1-1 2-2\n0-0\n"
    assert (folder / "out/table.txt").read_text() == out
    systems = read_result(folder / "out/scores.json").tables()["systems"]
    assert [row[systems.columns.index("links")] for row in systems.rows][1:4] == [4, 2, 4]
    assert len(systems.rows) == 1 + 3 * compare_aligners.RUNS["eflomal"]


def test_an_aligner_runs_once_on_a_text(folder, capsys):
    runs = folder / "environment/bin/eflomal-align.runs"
    for _ in range(2):
        assert compare(folder, "--aligners", "eflomal") == 0
    assert runs.read_text() == "4\n" * 3  # two training pairs and the two of the test set
    (folder / "train.de").write_text("ein haus\nnichts\ndas haus\n")
    assert compare(folder, "--aligners", "eflomal") == 0
    assert runs.read_text() == "4\n" * 3 + "5\n" * 3


def test_what_cannot_be_installed_is_left_out_and_told(folder, capsys, monkeypatch):
    def refuse(aligner, environment):
        if "systran" in aligner.package:
            raise UnavailableError("no network")

    monkeypatch.setattr(compare_aligners, "install", refuse)
    assert compare(folder) == 0
    out, err = capsys.readouterr()
    assert "== fast_align: left out, it could not be installed: no network\n" in err
    assert "eflomal, forward" in out
    assert "fast_align" not in out


def test_refused(folder, capsys):
    assert compare(folder, "--also", "a=b") == 2
    message = "--reverse-path and --also are about our model; expected --path"
    assert message in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("name", ALIGNERS)
def test_the_real_aligners(folder, capsys, tmp_path_factory, name):
    """On text so plain that they cannot fail: each word has one translation, in the same place."""
    environment = tmp_path_factory.mktemp("environment")
    try:
        statistical_aligners.install(ALIGNERS[name], environment)
    except (UnavailableError, subprocess.SubprocessError) as error:
        pytest.skip(f"{name} cannot be installed: {error}")
    words = [(f"d{number}", f"e{number}") for number in range(20)]
    pairs = [(words[n % 20], words[(3 * n + 1) % 20], words[(7 * n + 5) % 20]) for n in range(400)]
    for side, lang in enumerate(("de", "en")):
        lines = [" ".join(word[side] for word in pair) + "\n" for pair in pairs]
        (folder / f"train.{lang}").write_text("".join(lines))
        (folder / f"test.{lang}").write_text("".join(lines[:20]))
    (folder / "test.talp").write_text("1-1 2-2 3-3\n" * 20)
    assert compare(folder, "--environment", environment, "--aligners", name) == 0
    row = capsys.readouterr().out.splitlines()[-3]
    assert row.split()[:2] == [f"{name},", HEURISTIC]
    assert float(row.split()[2]) < 10
