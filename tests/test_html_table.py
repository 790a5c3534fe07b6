"""Results show themselves in notebooks, as HTML in which nothing of the text is taken for a tag."""

import re

import numpy as np
import pytest

from fairseq_normalign.alignment.aer import Counts, Score, score_links
from fairseq_normalign.alignment.error_table import ErrorTable
from fairseq_normalign.attention.soft import Choice, Evidence, Soft
from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.evaluation import Comparison, Row
from fairseq_normalign.heads.profile import Profile
from fairseq_normalign.html_table import MOST, Cell, html_table
from fairseq_normalign.layers.block_survey import BlockSurvey
from fairseq_normalign.layers.evolution import BY_LAYER, Evolution, Evolutions
from fairseq_normalign.layers.mixing import Mixing
from fairseq_normalign.layers.moments import Moments
from fairseq_normalign.layers.probing import Probing
from fairseq_normalign.layers.statistics import Affine, LayerStatistics, Relation, Statistics
from fairseq_normalign.names import Head
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


def test_profile():
    heads = [Head("cross", 0, 0), Head("cross", 0, 1)]
    scores = {"confidence": {heads[0]: 0.25, heads[1]: 0.75}, "AER": {heads[1]: 40.0}}
    positions = {heads[0]: {"offset": -1, "share": 0.5}}
    html = Profile(heads, scores, positions, signature={"trees": EVIL})._repr_html_()
    assert cells(html) == [
        *("head", "confidence", "AER", "position"),
        *("cross.1.1", "0.250", "–", "-1 (50 %)"),
        *("cross.1.2", "0.750", "40.000", ""),
    ]
    assert "<script" not in html


def mixing() -> Mixing:
    ratios = np.full((2, 5, 1), 0.5)
    return Mixing(
        ["overall"], np.array([7]), ratios, ratios, np.zeros(5), np.ones(5), [None] * 5,
        [None] * 5, 7, 7,
    )  # fmt: skip


def test_mixing_and_survey():
    assert cells(mixing()._repr_html_())[6:12] == ["1", *["50.0"] * 5]
    html = BlockSurvey(3, {"cross": mixing()}, {"cross": statistics()})._repr_html_()
    assert html.count("<h4>source–target attention</h4><table>") == 2


def statistics() -> Statistics:
    """One layer with two heads, of which the second adds nothing but one category."""
    layer = LayerStatistics(
        1, [], Moments(np.zeros((5, 2))), Moments(np.zeros((5, 1))),
        np.array([[0.5, 0.5], [0.9, 0.1]]),
        np.array([[1.0, 3.0], [0.0, 2.0]]), np.zeros((2, 2)), Affine([], [], 1.0),
    )  # fmt: skip
    none = Relation(None, 0, 0)
    return Statistics(
        ["word", EVIL],
        [layer],
        Moments(np.zeros((5, 1))),
        Moments(np.zeros((5, 1))),
        [],
        none,
        none,
        [],
        np.zeros((0, 4)),
    )


def test_statistics_show_shares_of_weights_and_norms():
    """Means of the heads: α 0.7 and 0.3; of norms, ¼ and 0 of the first category."""
    html = statistics()._repr_html_()
    assert "<script" not in html
    assert cells(html)[:3] == ["layer", "α, word", "‖αf(x)‖, word"]
    assert cells(html)[5:] == ["2", "70.0", "12.5", "30.0", "87.5"]


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


def test_comparison_is_a_list_that_shows_itself():
    row = Row(EVIL, {("cross", 0): 4}, 1_500_000, 6.0, {"BLEU": 21.25}, {}, 1.0)
    comparison = Comparison([row])
    assert comparison == [row]
    html = comparison._repr_html_()
    assert "<script" not in html
    assert cells(html)[-5:] == ["4", "1.50", "6.0", "21.2", "1.00×"]
    assert cells(Comparison()._repr_html_())[0] == "model"
