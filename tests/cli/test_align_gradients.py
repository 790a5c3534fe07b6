"""``normalign align`` with methods of gradients, on a model trained for a moment."""

import pytest

from tests.conftest import run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def align(corpus, checkpoint):
    def align(*options):
        words = ("--remove-bpe", "sentencepiece", "--gen-subset", "test")
        return run(
            "normalign",
            "align",
            corpus / "data-bin",
            "--cpu",
            "--path",
            checkpoint,
            *words,
            *options,
        )

    return align


@pytest.mark.parametrize(
    ("method", "told"),
    [("grad-input",) * 2, ("saliency",) * 2, ("smoothgrad:2",) * 2],
)
def test_links_and_signature(method, told, align):
    done = align("--method", method)
    assert f"method:{told}|layer:all|head:all|step:output|eos:null" in done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 40
    assert sum(map(bool, lines)) > 30
    assert align("--method", method, "--max-tokens", 60).stdout == done.stdout


def test_evidence(align):
    evidences = ("--evidence", "grad-input.output", "norms.2.input")
    assert len(align("--combine", "product", *evidences).stdout.splitlines()) == 40


def test_table(align, corpus):
    gold = ("--gold", corpus / "test.talp")
    done = align("--all", "--methods", "weights", "grad-input", "smoothgrad:1", *gold)
    assert "grad-input" in done.stdout
    assert "smoothgrad:1" in done.stdout
