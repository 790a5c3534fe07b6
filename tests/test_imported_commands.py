"""Every command on imported models of every family: align in both directions, heads, prune, mixing.

What they compute is tested elsewhere; here, that codes, own ends and dictionaries find their place.
"""

from __future__ import annotations

import re
import shutil

import pytest

from fairseq_normalign.results.result import read_result
from tests.conftest import run
from tests.imported import LANGUAGES, Families, both_languages, write_texts
from tests.translation_folders import marian_folder

COUNT = 8


@pytest.fixture(scope="module")
def imported(tmp_path_factory) -> Families:
    """Models that know nothing."""
    return Families(tmp_path_factory.mktemp("untaught"), steps=0)


@pytest.fixture(scope="module")
def texts(tmp_path_factory) -> list:
    """Options that name the texts."""
    source, target = write_texts(tmp_path_factory.mktemp("texts"), COUNT)
    return ["--source-file", source, "--target-file", target, "--cpu"]


def model_of(imported, family: str) -> list:
    """The folder, the checkpoint and the languages."""
    folder = imported[family].ours
    source, target = LANGUAGES[family]
    return [folder, "--path", folder / "model.pt", "-s", source, "-t", target]


def links_of(text: str) -> list[list[tuple[int, ...]]]:
    """The links of each line, which are all of words."""
    lines = []
    sources, targets = both_languages(COUNT)
    for line, source, target in zip(text.splitlines(), sources, targets, strict=True):
        links = [tuple(map(int, link.split("-"))) for link in line.split()]
        for i, j in links:
            assert i < len(source.split())
            assert j < len(target.split())
        lines.append(links)
    return lines


@pytest.mark.parametrize("family", ["marian", "targets", "targets apart"])
def test_align(family, imported, texts):
    """The others are aligned in both directions, below."""
    done = run("normalign", "align", *model_of(imported, family), *texts)
    assert any(links_of(done.stdout))


@pytest.fixture(scope="module")
def reverse(tmp_path_factory):
    """Marian's other direction: its pieces and dictionaries are others."""
    folder = tmp_path_factory.mktemp("reverse")
    marian_folder(folder / "theirs", reverse=True, shared=False, steps=0)
    run("normalign", "import", folder / "theirs", "-o", folder / "ours")
    return folder / "ours"


@pytest.mark.parametrize(
    ("family", "other"),
    [("apart", None), ("m2m", "m2m"), ("nllb", "nllb"), ("mbart", "mbart"), ("nllb", None)],
)
def test_both_directions(family, other, imported, reverse, texts):
    """Another model, with its own names of languages, or a multilingual one, both ways."""
    folder = imported[other].ours if other else reverse
    both = ["--reverse-path", folder / "model.pt", "--combine", "product"]
    done = run("normalign", "align", *model_of(imported, family), *texts, *both)
    assert any(links_of(done.stdout))


def test_a_reverse_model_of_several_targets_is_told_the_source_language(imported, texts, tmp_path):
    folder = tmp_path / "theirs"
    marian_folder(folder, reverse=True, codes=[">>xx<<", ">>zz<<"], steps=0)
    run("normalign", "import", folder, "-o", tmp_path / "ours")
    both = ["--reverse-path", tmp_path / "ours/model.pt", "--combine", "product"]
    model = model_of(imported, "marian")[:3]  # its languages are its own
    done = run("normalign", "align", *model, *texts, *both)
    assert any(links_of(done.stdout))


def test_the_reverse_model_may_be_elsewhere(imported, reverse, texts, tmp_path):
    """Its folder is then named; without, dictionaries of the other direction would be taken."""
    command = ["normalign", "align", *model_of(imported, "apart"), *texts]
    expected = run(*command, "--reverse-path", reverse / "model.pt").stdout
    shutil.copy(reverse / "model.pt", tmp_path / "moved.pt")
    moved = ("--reverse-path", tmp_path / "moved.pt")
    assert run(*command, *moved, "--reverse-data", reverse).stdout == expected
    done = run(*command, *moved)
    assert "warning: source text: " in done.stderr  # pieces of another model
    assert "are not in it; is it the model's own BPE?" in done.stderr


@pytest.mark.parametrize("family", ["mbart"])
def test_heads(family, imported, texts, tmp_path):
    output = tmp_path / "heads.json"
    measured = ("--relevance", "attnlrp", "--ablation", 1, "-o", output, "--limit", 2)
    run("normalign", "heads", *model_of(imported, family), *texts, *measured)
    assert len(read_result(output).tables()["heads"].rows) == 24


SPECIAL = {"targets": [2, 1, 1], "nllb": [2, 2, 2], "mbart": [2, 1, 1]}


@pytest.mark.parametrize("family", SPECIAL)
def test_mixing_counts_codes_as_special(family, imported, texts):
    """Around each source, a code and </s>; the decoder reads </s>, in mBART a code, or both."""
    done = run("normalign", "mixing", *model_of(imported, family), *texts)
    counts = re.findall(r" tokens: (\d+) special", done.stdout)
    assert [int(count) // COUNT for count in counts] == SPECIAL[family]


@pytest.mark.parametrize("family", ["apart", "m2m"])
def test_prune(family, imported, texts, tmp_path):
    """By a score that is measured on a text; links come from the heads that are left."""
    pruned = tmp_path / "pruned.pt"
    model = model_of(imported, family)
    fewer = ("--keep-top", 15, "--by", "confidence", "--out", pruned)
    run("normalign", "prune", *model, *texts, *fewer)
    model[2] = pruned
    done = run("normalign", "align", *model, *texts)
    assert any(links_of(done.stdout))
