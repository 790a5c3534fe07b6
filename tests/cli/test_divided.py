"""Commands resume, and are divided: the result is bit for bit that of an unbroken run."""

from argparse import Namespace
from pathlib import Path

import pytest
import torch

from fairseq_normalign.runs.folder import RunFolder
from tests.conftest import run
from tests.stored import OPTIONS, state

LINES = 24
FILES = ("one.pt", "two.pt", "gold", "trees")
WORDS = [f"w{number}" for number in range(30)]


DIVIDED = {
    "export": ("--path", "one.pt", "--quantity", "head-norms", "--chunk", "6"),
    "heads": (
        *("--path", "one.pt", "--relevance", "epsilon", "--relevance-mode", "pooled"),
        *("--ablation", "4", "--ablation-bleu", "2", "--gold", "gold", "--rare-top", "5"),
        *("--conllu", "trees", "--chunk", "9"),
    ),
    "methods": ("--path", "one.pt", "two.pt", "--gold", "gold", "--no-cost", "--chunk", "7"),
    "mixing": ("--path", "one.pt", "two.pt", "--chunk", "5"),
    "stats": ("--path", "one.pt", "--mixing", "--chunk", "7"),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Two small random models, and a text."""
    folder = tmp_path_factory.mktemp("kept")
    for language in "ab":
        lines = [f"{word} {100 - number}\n" for number, word in enumerate(WORDS)]
        (folder / f"dict.{language}.txt").write_text("".join(lines))
    for name, seed in (("one.pt", 1), ("two.pt", 2)):
        torch.manual_seed(seed)
        torch.save(state(args=Namespace(**OPTIONS)), folder / name)
    for language, factor in (("a", 3), ("b", 5)):
        lines = []
        for number in range(LINES):
            length = (number * factor) % 7 + 1
            words = [WORDS[(number * factor + place) % 30] for place in range(length)]
            lines.append(" ".join(words) + "\n")
        (folder / f"text.{language}").write_text("".join(lines))
    (folder / "gold").write_text("0-0\n" * LINES)
    tree = ["1\tw1\t_\tX\t_\t_\t2\tnsubj\t_\t_", "2\tw9\t_\tX\t_\t_\t0\troot\t_\t_"]
    (folder / "trees").write_text("\n".join([*tree, "", ""]) * 8)
    return folder


def command(place, name, output, *more, text="text.a"):
    words = [place / word if word in FILES else word for word in DIVIDED[name]]
    words = ["normalign", name, place, "--cpu", *words, "--max-tokens", "16"]
    words += ["--source-file", place / text, "--target-file", place / "text.b"]
    return [*words, *more, "-o", output]


@pytest.fixture(params=DIVIDED)
def divided(request, place, tmp_path):
    """A command, and what one process makes in one go: the output, and what is printed."""
    expected = tmp_path / "expected.json"
    whole = run(*command(place, request.param, expected))
    assert list(tmp_path.iterdir()) == [expected]
    return request.param, expected.read_bytes(), whole.stdout


def broken_off(monkeypatch, words, after):
    """Runs a command until it has kept some more chunks."""
    keep = RunFolder.keep
    left = after

    def keep_some(self, chunk, made):
        nonlocal left
        if not left:
            raise KeyboardInterrupt
        left -= 1
        keep(self, chunk, made)

    with monkeypatch.context() as patched:
        patched.setattr(RunFolder, "keep", keep_some)
        assert run(*words, check=False).returncode == 130


def test_what_is_broken_off_goes_on(place, divided, tmp_path, monkeypatch):
    name, expected, printed = divided
    output = tmp_path / "out.json"
    words = command(place, name, output)
    for after in (1, 2):
        broken_off(monkeypatch, words, after)
        assert not output.exists()
    done = run(*words)
    assert " pairs were done before" in done.stderr
    assert (output.read_bytes(), done.stdout) == (expected, printed)
    assert not Path(f"{output}.run").exists()


def test_shards_are_merged(place, divided, tmp_path):
    name, expected, printed = divided
    output = tmp_path / "out.json"
    for shard in (1, 0):
        done = run(*command(place, name, output, "--num-shards", 2, "--shard-id", shard))
        assert done.stdout == ""
    done = run("normalign", "merge", output)
    assert (output.read_bytes(), done.stdout) == (expected, printed)
    assert not Path(f"{output}.run").exists()


@pytest.mark.slow
def test_workers(place, divided, tmp_path):
    name, expected, printed = divided
    output = tmp_path / "out.json"
    done = run(*command(place, name, output, "--workers", 2), installed=True)
    assert (output.read_bytes(), done.stdout) == (expected, printed)
    assert "INFO" not in done.stderr  # of fairseq, which workers import, too


def refused(words, message):
    done = run(*words, check=False)
    assert done.returncode == 2
    assert message in done.stderr.splitlines()[-1], done.stderr


def test_what_differs_is_refused_until_restart(place, tmp_path, monkeypatch):
    output = tmp_path / "out.json"
    words = command(place, "stats", output)
    broken_off(monkeypatch, words, 2)
    other = command(place, "stats", output, "--ranks", "counts")
    refused(other, "was begun with --ranks ids, and this run is with --ranks counts; use the")
    refused(command(place, "mixing", output), "out.json: was begun ")
    lines = (place / "text.a").read_text().splitlines(keepends=True)
    (place / "changed").write_text("".join(["w1 w2 w3\n", *lines[1:]]))
    text = command(place, "stats", output, text="changed")
    refused(text, "of another text; use the same text, or --restart (2 finished chunks are ke")
    run(*text, "--restart")
    assert list(tmp_path.iterdir()) == [output]
