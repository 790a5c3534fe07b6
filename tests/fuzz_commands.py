"""Command lines from all options of every command, with values that fit and values that do not.

A line is run in this process. It must end with 0, or with 2 and one line that says why, leave the
files that it reads as they were, and leave nothing behind if it was refused.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import io
import json
import keyword
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from fairseq_normalign.attention.methods import METHODS
from fairseq_normalign.cli.main import COMMANDS, main
from fairseq_normalign.heads.head_scores import HEAD_SCORES
from tests import damage, fuzz_targets

CORPUS = "data --path model.pt --cpu --source-file text.a --target-file text.b"
LINES = {  # that each command takes; CORPUS if it is not named, and takes a model
    "methods": f"{CORPUS} --gold gold.talp",
    "plot": f"{CORPUS} --line 1 -o out.png",
    "export": f"{CORPUS} --quantity norms --layer 2 -o out.npz",
    "probe": "data --path model.pt --cpu --conllu trees.conllu",
    "train-aligner": f"{CORPUS} --links links.pharaoh -o out.safetensors --epochs 1",
    "aer": "gold.talp -i links.pharaoh",
    "project": "text.a text.b --links links.pharaoh --html",
    "symmetrize": "links.pharaoh links.pharaoh",
    "gates": "relevance.jsonl",
    "roles": "heads.json heads.json",
    "import": "bert -o imported",
    "convert": "model.pt --arch transformer_normalign -o converted.pt",
    "merge": "shards",
    "report": f"{CORPUS} -o out.html --include relevance.jsonl",
    "order-heads": f"{CORPUS} -o ordered",
    "shortlist": f"{CORPUS} -o lex",
    "prune": "--path model.pt --keep all --out pruned.pt",
}
VALUES = [
    *("0", "1", "2", "3", "0.5", "1e-3", "auto", "all", "none", "null", "input", "output"),
    *("encoder", "decoder", "cross", "encoder.1.3", "encoder.1.1,cross.2.4", "w1", "a", "b"),
    *("norms.1.input", "reverse:norms.1.output*2", "links:links.pharaoh", "lrp.output"),
    *("threshold:0.3", "grow", "piece-argmax", "learned", "subword_nmt", "sentencepiece"),
    *("{}", "{'dropout': 0.1}", "test", "valid", "text.a", "text.b", "empty", "data", "model.pt"),
    *("reverse.pt", "gold.talp", "links.pharaoh", "counts.txt", "trees.conllu", "heads.json"),
    *("relevance.jsonl", "generated.txt", "codes", "deen.learned", "aligner.safetensors", "none/x"),
    *("out.txt", "out.json", "out.png", "out.svg", "out.npz", "out.pt", "new", "text.a.gz"),
    *(name for name in METHODS if name != "smoothgrad"),
    *HEAD_SCORES,
    "smoothgrad:2",
]


class Captured(Exception):
    """Carries the parser of a command."""


@functools.cache
def parser_of(name: str) -> argparse.ArgumentParser:
    module = f"{name}_" if keyword.iskeyword(name) else name.replace("-", "_")
    command = importlib.import_module(f"fairseq_normalign.cli.{module}")
    parse = argparse.ArgumentParser.parse_known_args

    def capture(self: argparse.ArgumentParser, *args: Any, **options: Any) -> None:
        raise Captured(self)

    argparse.ArgumentParser.parse_known_args = capture  # type: ignore[method-assign,assignment]
    try:
        command.parse_args(["--help"])  # whose parser has all options
    except Captured as captured:
        return captured.args[0]
    finally:
        argparse.ArgumentParser.parse_known_args = parse  # type: ignore[method-assign]
    raise AssertionError(f"{name}: has no parser")


def values_of(action: argparse.Action) -> st.SearchStrategy[str]:
    known = [str(choice) for choice in action.choices or []]
    if action.type is not None:
        known += ["0", "1", "2", "3", "0.5"]
    if known:
        return st.sampled_from(known) | st.sampled_from(known) | short_words()
    return short_words()


def short_words() -> st.SearchStrategy[str]:
    """Without numbers that are large and right."""
    return damage.words(VALUES).filter(lambda word: not has_large_number(word))


def has_large_number(word: str) -> bool:
    digits = "".join(sign if sign.isdigit() else " " for sign in word)
    return any(2 < len(number) < 10 for number in digits.split())


@st.composite
def options_of(draw, parser: argparse.ArgumentParser) -> list[str]:
    """An option, with as many values as it takes, or not."""
    action = draw(st.sampled_from([action for action in parser._actions if action.option_strings]))
    words = [draw(st.sampled_from(action.option_strings))]
    if action.nargs == 0 and draw(st.integers(0, 9)):
        return words
    count = draw(st.integers(0, 3)) if action.nargs in ("+", "*", "?") else 1
    return words + [draw(values_of(action)) for _ in range(count)]


@st.composite
def command_lines(draw, name: str) -> list[str]:
    parser = parser_of(name)
    takes_model = any("--path" in action.option_strings for action in parser._actions)
    line = LINES.get(name, CORPUS if takes_model else "").split()
    for words in draw(st.lists(options_of(parser), max_size=3)):
        line += words
    if line and draw(st.integers(0, 3)) == 0:
        place = draw(st.integers(0, len(line) - 1))
        line[place : place + 1] = draw(st.sampled_from([[], [line[place]] * 2]) | odd_word())
    return [name, *line]


def odd_word() -> st.SearchStrategy[list[str]]:
    return short_words().map(lambda word: [word])


class Commands:
    """A folder with files of every kind, in which command lines are run."""

    names = tuple(COMMANDS)

    def __enter__(self) -> Commands:
        self.before = Path.cwd()
        self.folder = Path(tempfile.mkdtemp(prefix="fuzz-commands"))
        write_files(self.folder)
        self.originals = contents(self.folder)
        os.chdir(self.folder)
        return self

    def __exit__(self, *error: object) -> None:
        os.chdir(self.before)
        shutil.rmtree(self.folder)

    @staticmethod
    def lines(name: str) -> st.SearchStrategy[list[str]]:
        return command_lines(name)

    def run(self, line: list[str]) -> bool:
        """Whether the command took its line."""
        from tests.fuzz import HANGS, Defect, time_limit

        stderr = io.StringIO()
        try:
            with (
                nothing_to_read_or_write(),
                contextlib.redirect_stdout(io.StringIO()),
                contextlib.redirect_stderr(stderr),
                time_limit(HANGS),
            ):
                status = exit_status(line)
        except Exception as error:
            kind = type(error).__name__
            raise Defect(f"normalign {' '.join(line)!r}: {kind}: {str(error)[:200]}") from error
        finally:
            changes = self.restore()
        if status not in (0, 2):
            raise Defect(f"normalign {' '.join(line)!r}: ended with {status}")
        last = (stderr.getvalue().splitlines() or [""])[-1]
        if status == 2 and not last.startswith("normalign"):
            raise Defect(f"normalign {' '.join(line)!r}: ended with 2, and said {last!r}")
        wrong = changes if status == 2 else self.not_asked_for(changes, line)
        if wrong:
            raise Defect(f"normalign {' '.join(line)!r}: ended with {status}, and changed {wrong}")
        return status == 0

    def not_asked_for(self, changes: list[str], line: list[str]) -> list[str]:
        """Files that are not named, or for two things: one of them was to read the file."""
        wrong = []
        for name in changes:
            times = sum(name in word for word in line)
            if name in self.originals and times != 1 and not name.startswith("shards"):
                wrong.append(name)
        return wrong

    def restore(self) -> list[str]:
        """Makes the folder what it was; returns what was not so."""
        now = contents(self.folder)
        changed = [
            name for name in {**now, **self.originals} if now.get(name) != self.originals.get(name)
        ]
        for name in changed:
            path = self.folder / name
            if name in self.originals:
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(self.originals[name])
            else:
                path.unlink()
        for folder in self.folder.iterdir():
            if folder.is_dir() and folder.name not in ("data", "bert", "shards.run"):
                shutil.rmtree(folder)
        return changed


def exit_status(line: list[str]) -> Any:
    try:
        return main(line)
    except SystemExit as end:  # --help
        return end.code or 0


@contextlib.contextmanager
def nothing_to_read_or_write() -> Iterator[None]:
    """The null device as stdin and stdout of the process, wherever Python's own ones lead."""
    sys.stdout.flush()
    kept = [os.dup(0), os.dup(1)]
    null = os.open(os.devnull, os.O_RDWR)
    try:
        os.dup2(null, 0)
        os.dup2(null, 1)
        yield
    finally:
        for number, descriptor in enumerate(kept):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.close(null)


def contents(folder: Path) -> dict[str, bytes]:
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            found[str(path.relative_to(folder))] = path.read_bytes()
    return found


def write_files(folder: Path) -> None:
    """One file of every kind that commands read."""
    fuzz_targets.write_corpus(folder)
    (folder / "shards.run").mkdir()
    for name, content in fuzz_targets.run_folder().items():
        (folder / "shards.run" / name).write_bytes(content)
    reverse = fuzz_targets.checkpoint(seed=2, source_lang="b", target_lang="a")
    (folder / "reverse.pt").write_bytes(reverse)
    (folder / "text.a.gz").write_bytes(fuzz_targets.compressed((folder / "text.a").read_bytes()))
    (folder / "empty").touch()
    (folder / "gold.talp").write_text("0-0 1p1\n\n0-0\n0-1 1-1 2p2\n" * 5)
    (folder / "links.pharaoh").write_text("0-0 2-1\n\n0-0\n0-0 1-1 3-4\n" * 5)
    (folder / "generated.txt").write_bytes(b"S-0\tw1 w2\nH-0\t-0.1\tw3\n")
    (folder / "counts.txt").write_text("".join(f"w{number} {number + 1}\n" for number in range(30)))
    (folder / "codes").write_bytes(b"#version: 0.2\nw 1</w>\n")
    trees = [
        fuzz_targets.row("1", "w1", "2") + "\n" + fuzz_targets.row("2", "w2", "0", "root") + "\n"
    ]
    (folder / "trees.conllu").write_text("\n".join(trees * 3))
    (folder / "heads.json").write_bytes(fuzz_targets.ROLES)
    (folder / "relevance.jsonl").write_bytes(fuzz_targets.LOG)
    (folder / "deen.learned").write_bytes(fuzz_targets.learned())
    (folder / "aligner.safetensors").write_bytes(fuzz_targets.aligner())
    (folder / "bert").mkdir()
    for name, content in fuzz_targets.bert_folder().items():
        (folder / "bert" / name).write_bytes(content)
    (folder / "evolution.json").write_text(json.dumps({}))
