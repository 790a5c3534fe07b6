"""What commands ask of fairseq, as far as it needs no model."""

import os

from fairseq_normalign.alignment.words import TextFile
from fairseq_normalign.host.options import _count


def test_lines_are_counted_beforehand_where_they_can_be_read_again(tmp_path):
    text = tmp_path / "text"
    text.write_text("a\nb\n")
    assert _count(TextFile(text)) == 2
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert _count(TextFile(pipe)) is None
    assert _count(TextFile("-")) is None
