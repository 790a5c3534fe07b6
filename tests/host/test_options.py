"""What commands ask of fairseq, as far as it needs no model."""

import os

from fairseq_normalign.host.options import count_lines
from fairseq_normalign.text.words import TextFile


def test_lines_are_counted_beforehand_where_they_can_be_read_again(tmp_path):
    text = tmp_path / "text"
    text.write_text("a\nb\n")
    assert count_lines(TextFile(text)) == 2
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert count_lines(TextFile(pipe)) is None
    assert count_lines(TextFile("-")) is None
