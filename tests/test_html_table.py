"""Results show themselves in notebooks, as HTML in which nothing of the text is taken for a tag."""

import re

import numpy as np
import pytest

from fairseq_normalign.alignment.aer import Counts, Score, score_links
from fairseq_normalign.alignment.error_table import ErrorTable
from fairseq_normalign.attention.soft import Choice, Evidence, Soft
from fairseq_normalign.errors import InputError
from fairseq_normalign.html_table import MOST, Cell, html_table
from fairseq_normalign.layers.evolution import BY_LAYER, Evolution, Evolutions
from fairseq_normalign.layers.probing import Probing
from fairseq_normalign.text.links import Gold

EVIL = "<script>alert('&')</script>"


def cells(html: str) -> list[str]:
    """The text of all cells, names of columns and rows included."""
    return re.findall(r"<t[hd](?: [^>]*)?>(.*?)</t[hd]>", html)


def test_all_text_is_escaped():
    html = html_table([EVIL], [[EVIL, EVIL, Cell(EVIL, 0.5)]], caption=EVIL)
    assert "<script" not in html
    assert html.count("&lt;script&gt;alert(&#x27;&amp;&#x27;)&lt;/script&gt;") == 5


@pytest.mark.parametrize(("shade", "colour"), [(0.0, None), (0.5, "0.35"), (7.0, "0.70")])
def test_shade(shade, colour):
    html = html_table([""], [["", Cell("x", shade)]])
    assert ("background" in html) == (colour is not None)
    assert colour is None or f"rgba(66, 133, 244, {colour})" in html


def test_soft_with_words():
    soft = Soft(np.array([[3.0, 0.0], [1.0, 1.0]]), np.array([1.0, 0.0]))
    html = soft._replace(texts=(["das", EVIL], ["this", "&"]))._repr_html_()
    expected = ["", "das", "&lt;script&gt;alert(&#x27;&amp;&#x27;)&lt;/script&gt;", "&lt;/s&gt;"]
    expected += ["this", "75", "0", "25", "&amp;", "50", "50", "0"]
    assert cells(html) == expected


def test_soft_without_words_numbers_them():
    html = Soft(np.ones((1, 2)), np.zeros(1))._repr_html_()
    assert cells(html) == ["", "0", "1", "&lt;/s&gt;", "0", "50", "50", "0"]


def test_soft_of_nothing():
    html = Soft(np.zeros((1, 1)), np.zeros(1))._repr_html_()
    assert cells(html)[-2:] == ["0", "0"]
    assert cells(Soft(np.zeros((0, 0)), np.zeros(0))._repr_html_()) == ["", "&lt;/s&gt;"]


def test_long_sentences_are_cut_and_the_caption_says_so():
    html = Soft(np.ones((MOST + 5, 3)), np.zeros(MOST + 5))._repr_html_()
    assert html.count("<tr>") == MOST + 1
    assert f"the first {MOST} of {MOST + 5} target words" in html
    assert "source words" not in html


def test_counts_and_score():
    counts = Counts(links=4, sure=2, in_possible=3, in_sure=2)
    assert cells(counts._repr_html_())[-6:] == ["16.7", "75.0", "100.0", "85.7", "4", "2"]
    score = Score(EVIL, Counts(), np.zeros((0, 4)))
    assert "<script" not in score._repr_html_()
    assert cells(score._repr_html_())[-6:] == ["–", "–", "–", "–", "0", "0"]


def test_score_links():
    gold = [Gold({(0, 0)}, {(0, 0), (1, 1)}), Gold({(2, 2)}, {(2, 2)})]
    counts = score_links([[(0, 0), (1, 1)], []], gold)
    assert counts == Counts(links=2, sure=2, in_possible=2, in_sure=1)


@pytest.mark.parametrize(("count", "shorter"), [(1, "links"), (3, "gold")])
def test_score_links_of_other_pairs(count, shorter):
    gold = [Gold(set(), set())] * 2
    with pytest.raises(InputError, match=f"the {shorter} end early; expected links and gold"):
        score_links([[]] * count, gold)


def test_error_table():
    scores = {
        Evidence("norms", 0, "input"): Counts(10, 10, 8, 8),
        Evidence("norms", 1, "input"): Counts(10, 10, 4, 4),
        Evidence("norms", 1, "input", 2): Counts(10, 10, 3, 3),
        Evidence("lrp", None, "output"): Counts(10, 10, 5, 5),
    }
    choices = {
        "norms": Choice({"input": 1}, "input"),
        "lrp": Choice({"output": None}, "output"),
    }
    html = ErrorTable(scores, choices)._repr_html_()
    assert cells(html) == [
        *("layer", "norms, input", "lrp, output"),
        *("1", "20.0*", "–"),
        *("2", "60.0+", "–"),
        *("2.3", "70.0", "–"),
        *("all", "–", "50.0*+"),
    ]


def test_evolution_and_probing():
    of_layers = {name: [0.25, 0.5] for name in BY_LAYER}
    model = Evolution(EVIL, "encoder", **of_layers)
    html = Evolutions([model, model], {}, 1.0, {}, [], {})._repr_html_()
    assert html.count("<table>") == 2
    assert "<script" not in html
    assert cells(html)[6:12] == ["0", *["0.250"] * 5]
    html = Probing(EVIL, [0.5, 0.75], [0.25, 0.25], 0.2, 90, 10, ["NOUN"])._repr_html_()
    assert cells(html)[3:] == [*("0", "50.0", "25.0"), *("1", "75.0", "25.0")]
    assert "10 words; most frequent tag 20.0" in html
    assert "<script" not in html
