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


@pytest.mark.parametrize("method", ["grad-input", "saliency", "smoothgrad:2"])
def test_links_and_signature(method, align):
    done = align("--method", method)
    assert f"method:{method}|layer:all|head:all|step:output|eos:null" in done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 40
    assert sum(map(bool, lines)) > 30
    assert align("--method", method, "--max-tokens", 60).stdout == done.stdout
