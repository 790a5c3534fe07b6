"""What libraries say that nobody can act on is not shown; what we say is."""

import warnings

import pytest

from fairseq_normalign import noise
from tests.conftest import run

NEWS = "fairseq_normalign has news"

SCRIPT = """
import sys
from fairseq_normalign import NormAligner, profile, survey_blocks, text_pairs

checkpoint, corpus = sys.argv[1:]
aligner = NormAligner.from_checkpoint(
    checkpoint, data=f"{corpus}/data-bin", bpe="sentencepiece", model=f"{corpus}/spm.model",
    layer=1, step="input",  # chosen from so young a model, they would cause a warning
)
with open(f"{corpus}/test.src") as source, open(f"{corpus}/test.tgt") as target:
    pairs = list(zip(source, target))
print(len(list(aligner.align_many(pairs))))
read = list(text_pairs(pairs, aligner.reader))
profile(aligner, read, ["confidence", "importance", "relevance"], relevance_mode="pooled")
survey_blocks(aligner, read)
"""


def test_ours_are_shown_and_theirs_are_not():
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        noise.hide_warnings()
        for message in (*noise.HIDDEN, NEWS):
            warnings.warn(f"{message}, and so on", stacklevel=1)
    assert [str(warning.message) for warning in shown] == [f"{NEWS}, and so on"]


@pytest.mark.slow
def test_the_python_api_says_nothing(corpus, checkpoint, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    done = run("python", script, checkpoint, corpus)
    assert done.stdout == "40\n"
    assert done.stderr == ""
