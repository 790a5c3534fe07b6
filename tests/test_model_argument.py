"""MODEL as commands name it: text is split into pieces, binarised data is not."""

from argparse import Namespace

import pytest

from fairseq_normalign.model_argument import find_model


@pytest.mark.parametrize(
    ("text", "bpe"),
    [
        ({"source_file": "a.de"}, "sentencepiece"),
        ({"hypotheses": "gen.out"}, "sentencepiece"),
        ({"conllu": "a.conllu"}, "sentencepiece"),  # the only text of normalign probe
        ({"source_file": None}, None),
    ],
)
def test_pieces_of_the_folder_are_for_text(text, bpe, tmp_path):
    (tmp_path / "deen.pt").touch()
    (tmp_path / "spm.model").touch()
    (tmp_path / "dict.txt").write_text("▁das 3\n▁ist 2\nse 1\n", encoding="utf-8")
    args = Namespace(**text, data=str(tmp_path), bpe=None, post_process=None)
    find_model(args, str(tmp_path))
    assert args.bpe == bpe
    assert args.post_process == (None if bpe else "sentencepiece")
