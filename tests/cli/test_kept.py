"""Commands that were killed go on, and the result is bit for bit that of an unbroken run."""

from argparse import Namespace
from pathlib import Path

import pytest
import torch

from fairseq_normalign.heads import alignment_scores, syntax
from fairseq_normalign.runs import sums
from tests.conftest import run
from tests.stored import OPTIONS, state

LINES = 24
FILES = ("one.pt", "two.pt", "gold", "trees")
WORDS = [f"w{number}" for number in range(30)]


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


COMMANDS = {
    "export": ("--path", "one.pt", "--quantity", "head-norms"),
    "mixing": ("--path", "one.pt", "two.pt"),
    "stats": ("--path", "one.pt", "--mixing"),
    "heads": (
        *("--path", "one.pt", "--relevance", "epsilon", "--relevance-mode", "pooled"),
        *("--ablation", "4", "--ablation-bleu", "2", "--gold", "gold", "--rare-top", "5"),
        *("--conllu", "trees", "--conllu-apart"),
    ),
}


def command(place, name, output, *more, text="text.a"):
    words = [place / word if word in FILES else word for word in COMMANDS[name]]
    words = ["normalign", name, place, "--cpu", *words, "--max-tokens", "16"]
    words += ["--source-file", place / text, "--target-file", place / "text.b"]
    return [*words, *more, "-o", output]


class Killed(BaseException):
    """What no command handles."""


@pytest.fixture
def break_off(monkeypatch):
    """Runs a command that keeps its sums after every step, until it has kept some of a pass."""

    def run_until(words, *, of_pass=None, kept=2):
        left = kept
        keep = sums.SumsFolder.keep

        def keep_some(self, name, contents):
            nonlocal left
            if of_pass in (name, None):
                if left == 0:
                    raise Killed
                left -= 1
            keep(self, name, contents)

        with monkeypatch.context() as patched:
            patched.setattr(sums, "EVERY", 0.0)
            patched.setattr(sums.SumsFolder, "keep", keep_some)
            with pytest.raises(Killed):
                run(*words)

    return run_until


PASSES = {
    "export": ("arrays", "arrays"),
    "mixing": ("blocks-of-model-1", "blocks-of-model-2"),
    "stats": ("blocks", "blocks"),
    "heads": (
        *("attention", "relevance", "importance", "ablation", "AER", "attention-moved"),
        *("trees", "ablation-by-BLEU"),
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_killed_goes_on(place, name, tmp_path, break_off, monkeypatch):
    for module in (alignment_scores, syntax):
        monkeypatch.setattr(module, "WINDOW", 2)
    expected, output = tmp_path / "expected.json", tmp_path / "out.json"
    whole = run(*command(place, name, expected))
    assert list(tmp_path.iterdir()) == [expected]
    words = command(place, name, output)
    for of_pass in PASSES[name]:
        break_off(words, of_pass=of_pass)
        assert not output.exists()
        assert Path(f"{output}.run", f"sums-{of_pass}").exists()
    done = run(*words)
    for of_pass in PASSES[name]:
        assert f"{of_pass.replace('-', ' ')}: " in done.stderr
    assert output.read_bytes() == expected.read_bytes()
    assert done.stdout == whole.stdout
    assert sorted(tmp_path.iterdir()) == [expected, output]


def refused(words, message):
    done = run(*words, check=False)
    assert done.returncode == 2
    assert message in done.stderr.splitlines()[-1], done.stderr


def test_what_differs_is_refused_until_restart(place, tmp_path, break_off):
    output = tmp_path / "out.json"
    words = command(place, "stats", output)
    break_off(words)
    other = command(place, "stats", output, "--ranks", "counts")
    refused(other, "was begun with --ranks ids, and this run is with --ranks counts; expected the")
    refused(command(place, "mixing", output), "out.json: was begun ")
    lines = (place / "text.a").read_text().splitlines(keepends=True)
    (place / "changed").write_text("".join(["w1 w2 w3\n", *lines[1:]]))
    text = command(place, "stats", output, text="changed")
    refused(text, "of another text; expected the same text, or --restart (what was done is kept")
    run(*text, "--restart")
    assert list(tmp_path.iterdir()) == [output]


def test_restart_needs_an_output(place):
    words = command(place, "mixing", "/dev/null", "--restart")
    refused(words, "--restart is about what is kept of --output FILE; expected that with it")
