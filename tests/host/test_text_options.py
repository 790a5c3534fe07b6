"""How an imported folder tells the way its text is read."""

from __future__ import annotations

from argparse import Namespace

import pytest

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.text_options import apply_reading, reading_file


def options() -> Namespace:
    return Namespace(bpe=None, sentencepiece_model=None)


def test_files_are_those_of_the_folder(tmp_path):
    for name, content in reading_file(bpe="sentencepiece", sentencepiece_model="a.spm").items():
        (tmp_path / name).write_text(content)
    args = options()
    apply_reading(args, tmp_path)
    assert (args.bpe, args.sentencepiece_model) == ("sentencepiece", str(tmp_path / "a.spm"))


def test_no_name_leads_out_of_the_folder(tmp_path):
    (tmp_path / "reading.json").write_text('{"sentencepiece_model": "../../etc/x"}')
    args = options()
    apply_reading(args, tmp_path)
    assert args.sentencepiece_model == str(tmp_path / "x")


@pytest.mark.parametrize(
    "text", ['{"bpe": 3}', '{"path": "model.pt"}', "{", "[]", '{"bpe": "bert", "bpe": "gpt2"}']
)
def test_other_options_are_refused(text, tmp_path):
    (tmp_path / "reading.json").write_text(text)
    with pytest.raises(InputError, match="expected a file of normalign import"):
        apply_reading(options(), tmp_path)
