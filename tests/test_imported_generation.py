"""fairseq's own commands with imported models: the translations of transformers, token by token."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.conftest import run
from tests.imported import (
    LANGUAGES,
    LONGEST,
    Both,
    binarised,
    both_languages,
    run_fairseq,
    translated_by_theirs,
)
from tests.translation_folders import CODES

pytestmark = pytest.mark.slow

COUNT = 12
SEARCH = ("--beam", 3, "--max-len-a", 0, "--max-len-b", LONGEST - 1, "--min-len", 0)


def task_of(both: Both) -> tuple:
    """The options that name the task."""
    codes = getattr(both.task.cfg, "language_codes", None)
    if codes is None:
        return ("--task", "translation_normalign")
    return ("--task", "multilingual_normalign", "--language-codes", codes)


@pytest.fixture
def data(family, imported, tmp_path):
    """Binarised text."""
    return binarised(imported[family], LANGUAGES[family], COUNT, tmp_path)


def begins_with_code(family: str) -> bool:
    return family in CODES and family != "mbart"


def search_of(both: Both, family: str) -> dict:
    """The search in the words of transformers."""
    search = {"num_beams": 3, "early_stopping": True, "max_length": LONGEST + 1}
    if begins_with_code(family):
        search["forced_bos_token_id"] = both.task.target_code
    return search


def generated(both: Both, family: str, data, path) -> str:
    """What fairseq-generate prints."""
    source, target = LANGUAGES[family]
    printed, _ = run_fairseq(
        *("generate", data, "--path", path, "-s", source, "-t", target, "--cpu", *task_of(both)),
        *(*SEARCH, "--print-alignment", "hard"),
    )
    return printed


def check_translations(both: Both, family: str, printed: str, expected, rows) -> None:
    """Translations are those expected, which have the numbers ``rows`` of our tokens."""
    lines = dict(re.findall(r"^H-(\d+)\t\S+\t(.*)$", printed, flags=re.MULTILINE))
    index = both.task.target_dictionary.index
    compared = 0
    for number, tokens in enumerate(expected):
        if len(tokens) < LONGEST:  # searches differ at the limit
            pieces = [rows[index(piece)] for piece in lines[str(number)].split()]
            assert pieces == tokens[begins_with_code(family) : -1]
            compared += 1
    assert compared > COUNT / 2


@pytest.mark.parametrize("family", ["targets", "nllb", "mbart50"])  # the others: below
def test_generate(family, imported, data):
    both = imported[family]
    printed = generated(both, family, data, both.ours / "model.pt")
    texts, _ = both_languages(COUNT)
    expected = translated_by_theirs(both, texts, **search_of(both, family))
    check_translations(both, family, printed, expected, both.rows("target"))
    by_number = {}
    for kind in "SHA":
        lines = re.findall(rf"^{kind}-(\d+)\t(?:-[\d.e-]+\t)?(.*)$", printed, flags=re.MULTILINE)
        by_number[kind] = {number: line.split() for number, line in lines}
    assert len(by_number["A"]) == COUNT
    codes = {*CODES.get(family, []), ">>bbb<<"}
    for number, links in by_number["A"].items():
        source = [piece for piece in by_number["S"][number] if piece not in codes]
        for link in links:
            i, j = map(int, link.split("-"))
            assert i < len(source)
            assert j < len(by_number["H"][number])


@pytest.mark.parametrize("family", ["marian", "mbart"])
def test_train(family, imported, data, tmp_path):
    """It goes on from the imported model, with its sizes."""
    both = imported[family]
    source, target = LANGUAGES[family]
    _, log = run_fairseq(
        *("train", data, "-s", source, "-t", target, "--cpu", *task_of(both)),
        *("--arch", "transformer_normalign", "--finetune-from-model", both.ours / "model.pt"),
        *("--max-update", 2, "--max-tokens", 500, "--optimizer", "adam", "--lr", 1e-6),
        *("--criterion", "cross_entropy", "--disable-validation", "--save-dir", tmp_path / "save"),
    )
    loss = float(re.search(r"\| loss ([\d.]+)", log)[1])
    assert loss < 5  # as of a model that was taught; 7 bits would be chance


@pytest.mark.parametrize("family", ["nllb"])
def test_the_command_that_import_prints_translates(family, imported, tmp_path):
    """As installed, from raw text."""
    both = imported[family]
    texts, _ = both_languages(3)
    (tmp_path / "text").write_text("\n".join(texts) + "\n", encoding="utf-8")
    done = run("normalign", "import", both.folder, "-o", tmp_path / "ours")
    _, command = done.stdout.splitlines()
    command = command.replace("SOURCE", str(tmp_path / "text"))
    for language in LANGUAGES[family]:
        command = command.replace("LANG", language, 1)
    done = run(*shlex.split(command), "--cpu", cwd=tmp_path)
    assert len(re.findall(r"^H-\d+\t", done.stdout, flags=re.MULTILINE)) == 3
    assert "▁" not in "".join(re.findall(r"^D-.*$", done.stdout, flags=re.MULTILINE))
