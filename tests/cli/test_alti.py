"""Contributions and gradients through the commands, on a model trained for a moment."""

import numpy as np
import pytest

from fairseq_normalign import NormAligner, open_export, source_shares, text_pairs
from tests.conftest import run

pytestmark = pytest.mark.slow

NAMES = ("alti", "alti-l2", "alti-encoder", "alti-rollout")


@pytest.fixture
def command(corpus, checkpoint, text):
    def run_one(name, *options):
        words = ("normalign", name, corpus / "data-bin", "--cpu", "--path", checkpoint)
        return run(*words, *text, *options)

    return run_one


@pytest.fixture(scope="module")
def aligner(corpus, checkpoint) -> NormAligner:
    data, model = str(corpus / "data-bin"), str(corpus / "spm.model")
    return NormAligner.from_checkpoint(str(checkpoint), data, bpe="sentencepiece", model=model)


def test_layers_are_chosen_and_evidence_is_learned(command):
    alone = command("align", "--method", "alti", "--combine", "none")
    assert "method:alti|layer:auto:" in alone.stderr
    learned = command("align", "--method", "alti", "--combine", "learned")
    assert "method:alti|combine:learned|directions:1|evidences:30" in learned.stderr
    named = ["--combine", "product", "--evidence", "alti.1.input", "alti-l2.3.2.output*0.5"]
    assert "evidences:2" in command("align", *named).stderr


def test_shares_of_the_source_are_exported(corpus, command, aligner, tmp_path):
    output = tmp_path / "shares.npz"
    options = ["--quantity", "source-share", "--layer", 3, 1, "-o", output, "--max-tokens", 100]
    command("export", *options)
    lines = zip(
        (corpus / "test.src").read_text().splitlines(),
        (corpus / "test.tgt").read_text().splitlines(),
        strict=True,
    )
    expected = source_shares(aligner.forcing, text_pairs(lines, aligner.reader))
    with open_export(output) as export:
        assert export.metadata["axes"] == ["layer", "query"]
        assert export.metadata["layers"] == [1, 3]
        for item, shares in zip(export, expected, strict=True):
            assert item.array.shape == (2, len(item.target))
            np.testing.assert_allclose(item.array, shares[[0, 2]], rtol=1e-4, atol=1e-5)
