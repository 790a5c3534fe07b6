"""Models that are damaged, diverged, of other dictionaries or no translation models.

Every command that loads one says so in one line, ends with 2 and writes nothing.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Callable, Collection
from pathlib import Path

import pytest
import torch

from fairseq_normalign.cli.main import COMMANDS
from tests.cli.test_evolution import store_language_model
from tests.conftest import refused
from tests.fuzz_commands import CORPUS, LINES, contents, parser_of, write_files
from tests.fuzz_targets import checkpoint
from tests.stored import OPTIONS, state


def loads(name: str) -> bool:
    return any("--path" in action.option_strings for action in parser_of(name)._actions)


LOADING = [name for name in COMMANDS if loads(name)] + ["convert"]


def first_fast(names: Collection[str]) -> list:
    """All of them if time does not count, else ``align`` alone."""
    others = sorted(set(names) - {"align"})
    return ["align", *(pytest.param(name, marks=pytest.mark.slow) for name in others)]


def stored(parameters: dict | None = None, without: str = "", **options) -> bytes:
    """A checkpoint with some parameters or options changed, or without an entry."""
    whole = state(args=argparse.Namespace(**{**OPTIONS, **options}))
    for name, change in (parameters or {}).items():
        whole["model"][name] = change(whole["model"][name])
    whole.pop(without, None)
    content = io.BytesIO()
    torch.save(whole, content)
    return content.getvalue()


def diverged(values: torch.Tensor) -> torch.Tensor:
    values = values.clone()
    values.view(-1)[7] = float("nan")
    return values


FC2 = "decoder.layers.1.fc2.weight"
DAMAGED = "not a checkpoint, or a damaged one"
MODELS: dict[str, tuple[Callable[[], bytes], str]] = {
    "text": (lambda: b"w1 w2 w3\n", DAMAGED),
    "its first half": (lambda: checkpoint()[: len(checkpoint()) // 2], DAMAGED),
    "NaN": (lambda: stored({FC2: diverged}), f"no numbers (first: '{FC2}')"),
    "of an unknown architecture": (lambda: stored(arch="strange"), "strange"),
    "of an unknown task": (lambda: stored(task="strange"), "strange"),
    "without options": (lambda: stored(without="args"), "Neither args nor cfg exist"),
    "with a parameter of another shape": (
        lambda: stored({FC2: lambda values: values[:, :-1]}),
        f"does not fit its own options: size mismatch for {FC2}",
    ),
}
# These need the parameters alone, and do not ask for the task.
TASKLESS = ("prune", "convert")
# These need no translation model.
OF_ANY_MODEL = {"evolution", "probe", "mixing", "stats"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_files(folder)
    return folder


@pytest.fixture
def here(folder, monkeypatch) -> Path:
    monkeypatch.chdir(folder)
    return folder


def line_of(name: str, path: str = "bad.pt", data: str = "data") -> list[str]:
    words = LINES.get(name, CORPUS).split()
    return [name, *({"model.pt": path, "data": data}.get(word, word) for word in words)]


def check_refused(here: Path, line: list[str], message: str) -> None:
    before = contents(here)
    told = refused("normalign", *line)
    assert told.startswith(f"normalign {line[0]}: ")
    assert message in told
    assert contents(here) == before


@pytest.mark.parametrize("kind", MODELS)
def test_models_that_cannot_be_used(here, kind):
    make, message = MODELS[kind]
    (here / "bad.pt").write_bytes(make())
    check_refused(here, line_of("align"), message)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*LOADING} - {"align"}))
def test_every_command_refuses_what_has_diverged(here, name):
    """All load models by the same functions: one kind tells that they are called."""
    make, message = MODELS["NaN"]
    (here / "bad.pt").write_bytes(make())
    check_refused(here, line_of(name), message)


@pytest.mark.parametrize("name", first_fast(set(LOADING) - set(TASKLESS)))
def test_dictionaries_of_another_model(here, name):
    other = here / "other"
    other.mkdir(exist_ok=True)
    for language in "ab":
        text = (here / f"data/dict.{language}.txt").read_text()
        (other / f"dict.{language}.txt").write_text(text + "more 1\n")
    message = "trained with a dictionary of 34 types, and that in other has 35"
    check_refused(here, line_of(name, "model.pt", "other"), message)


@pytest.mark.parametrize("name", first_fast(set(LOADING) - OF_ANY_MODEL))
def test_a_language_model(here, name):
    """It has no source–target attention; what its states and blocks hold can be measured."""
    (here / "data/dict.txt").write_text((here / "data/dict.a.txt").read_text())
    store_language_model(here / "bad.pt")
    check_refused(here, line_of(name), "")
