import pytest

from fairseq_normalign.errors import InputError
from fairseq_normalign.text.hypotheses import read_printed

LOG = """2026 | INFO | loading
S-1\tein haus
T-1\ta house
H-1\t-0.5\tone house
H-1\t-0.9\ta home
P-1\t-0.1 -0.4
S-0\t
H-0\t-1.0\tyes
A-0\t
"""


def test_a_generation_log(tmp_path):
    (tmp_path / "gen.out").write_text(LOG)
    assert read_printed(tmp_path / "gen.out") == (
        [[], ["ein", "haus"]],
        [["yes"], ["one", "house"]],
    )


def test_plain_text_is_no_log(tmp_path):
    (tmp_path / "plain.txt").write_text("H- is a letter\none house\n")
    assert read_printed(tmp_path / "plain.txt") is None


def test_a_gap_is_an_error(tmp_path):
    (tmp_path / "gen.out").write_text(LOG.replace("S-0\t\n", ""))
    with pytest.raises(InputError, match=r"gen\.out: sentence 0 has no S- or no H- line"):
        read_printed(tmp_path / "gen.out")
