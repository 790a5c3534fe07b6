"""MODEL as commands name it: text is split into pieces, binarised data is not."""

from argparse import Namespace

import pytest

from fairseq_normalign.cli.model import place_model
from fairseq_normalign.errors import InputError
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


def test_several_models_come_before_the_texts(tmp_path):
    """They share the dictionaries and BPE of the first: evaluate deen/ small.pt a.de a.en."""
    for name in ("full.pt", "spm.model", "small.pt", "a.de", "a.en"):
        (tmp_path / name).touch()
    (tmp_path / "dict.txt").write_text("▁das 3\n▁ist 2\nse 1\n", encoding="utf-8")
    words = [str(tmp_path / name) for name in ("full.pt", "small.pt", "a.de", "a.en")]
    options = {"path": None, "data": None, "bpe": None, "post_process": None}
    texts = {"source_file": None, "target_file": None}
    args = Namespace(**options, **texts)
    place_model(args, words, several=True)
    assert [args.path, args.source_file, args.target_file] == [words[:2], *words[2:]]
    assert args.bpe == "sentencepiece"
    with pytest.raises(InputError, match=r"a\.en: one argument too many"):
        place_model(Namespace(**options, **texts), words, several=False)
