"""Results show themselves in notebooks, as HTML in which nothing of the text is taken for a tag."""

import re

import numpy as np
import pytest

from fairseq_normalign.alignment.aer import Counts, score_links
from fairseq_normalign.attention.soft import Soft
from fairseq_normalign.errors import InputError
from fairseq_normalign.results.notebook import MOST
from fairseq_normalign.text.links import Gold

EVIL = "<script>alert('&')</script>"


def cells(html: str) -> list[str]:
    """The text of all cells, names of columns and rows included."""
    found = re.findall(r"<t[hd](?: [^>]*)?>(.*?)</t[hd]>", html)
    return [re.sub(r"</?div[^>]*>", "", cell).strip() for cell in found]


def test_soft_with_words():
    soft = Soft(np.array([[3.0, 0.0], [1.0, 1.0]]), np.array([1.0, 0.0]))
    html = soft._replace(texts=(["das", EVIL], ["this", "&"]))._repr_html_()
    expected = ["", "das", "&lt;script&gt;alert(&#x27;&amp;&#x27;)&lt;/script&gt;", "&lt;/s&gt;"]
    expected += ["this", "75", "0", "25", "&amp;", "50", "50", "0"]
    assert cells(html) == expected


def test_long_sentences_are_cut_and_the_caption_says_so():
    html = Soft(np.ones((MOST + 5, 3)), np.zeros(MOST + 5))._repr_html_()
    assert html.count("<tr>") == MOST + 1
    assert f"the first {MOST} rows of {MOST + 5}" in html
    assert "columns" not in html


def test_score_links():
    gold = [Gold({(0, 0)}, {(0, 0), (1, 1)}), Gold({(2, 2)}, {(2, 2)})]
    counts = score_links([[(0, 0), (1, 1)], []], gold)
    assert counts == Counts(links=2, sure=2, in_possible=2, in_sure=1)


@pytest.mark.parametrize(("count", "shorter"), [(1, "links"), (3, "gold")])
def test_score_links_of_other_pairs(count, shorter):
    gold = [Gold(set(), set())] * 2
    with pytest.raises(InputError, match=f"the {shorter} end early; pass links and gold"):
        score_links([[]] * count, gold)
