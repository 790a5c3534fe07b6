"""Tables and pictures of the evolution of representations."""

import numpy as np
import pytest

from fairseq_normalign.layers.evolution import Evolution, Evolutions
from fairseq_normalign.report.evolution import as_json, as_text
from fairseq_normalign.report.evolution_pictures import picture, words_picture


def model(name: str, count: int, **more) -> Evolution:
    curves = {key: [0.5] * count for key in ("identity", "left", "right")}
    return Evolution(
        name,
        "encoder",
        **curves,
        position=[2.0] * count,
        information=[1.234] * count,
        shuffled_information=[0.1] * count,
        **more,
    )


@pytest.fixture
def evolutions():
    groups = {"all": [0.1, 0.2], "<9": [0.3, 0.4], "≥9": [0.5, 0.6], "shuffled": [0.8, 0.9]}
    influence = {"any": [0.0012, 0.002], "<9": [0.003, 0.004]}
    plane = (np.arange(6.0).reshape(3, 2), 0.5)
    first = model(
        "a.pt",
        3,
        change=groups,
        influence=influence,
        layers=[[0.0, 0.1, 0.2]] * 3,
        planes=[plane] * 3,
    )
    second = model("b.pt", 2, planes=[plane] * 2)
    return Evolutions(
        [first, second],
        {"identity": 0.01, "left": 0.02, "right": 0.03, "position": 9.0},
        4.605,
        {("a.pt", "b.pt"): [[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]},
        ["x", "y", "y"],
        {"seed": 1},
    )


TEXT = """\
a.pt, encoder
layer   identity   left  right  position  information  shuffled
random     0.010  0.020  0.030      9.00            –         –
0          0.500  0.500  0.500      2.00         1.23      0.10
1          0.500  0.500  0.500      2.00         1.23      0.10
2          0.500  0.500  0.500      2.00         1.23      0.10

change: PWCCA distance to the layer below, by frequency in the training data
layer    all     <9     ≥9  shuffled
1      0.100  0.300  0.500     0.800
2      0.200  0.400  0.600     0.900

influence: PWCCA distance that hiding one token makes for others, by its frequency
layer     any      <9
1      0.0012  0.0030
2      0.0020  0.0040

b.pt, encoder
layer   identity   left  right  position  information  shuffled
random     0.010  0.020  0.030      9.00            –         –
0          0.500  0.500  0.500      2.00         1.23      0.10
1          0.500  0.500  0.500      2.00         1.23      0.10

PWCCA distance between models, layer by layer
layer  a.pt – b.pt
0            0.100
1            0.400

identity:"""


def test_tables(evolutions):
    text = as_text(evolutions)
    assert text.startswith(TEXT)
    assert "at most 4.61." in text


def test_json_has_it_all(evolutions):
    written = as_json(evolutions, {"sentences": 7, "seed": 1})
    assert written["models"][0]["change"]["<9"] == [0.3, 0.4]
    assert "planes" not in written["models"][0]
    assert written["between"] == [
        {"models": ["a.pt", "b.pt"], "distances": [[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]}
    ]
    assert written["signature"] == {"sentences": 7, "seed": 1}


def test_the_picture_has_a_row_for_each_model(evolutions):
    figure = picture(evolutions)
    titles = [axes.get_title() for axes in figure.axes]
    assert titles[:6] == [
        "same token",
        "same token to the left",
        "same token to the right",
        "distance of positions",
        "information with tokens, nats (dashed: shuffled)",
        "PWCCA distance between models",
    ]
    assert titles[6:8] == ["a.pt: change (shuffled: 0.80 or more)", "a.pt: influence"]
    change = figure.axes[6]
    assert [line.get_label() for line in change.get_lines()] == ["all", "<9", "≥9"]
    assert not figure.axes[9].axison  # of b.pt, there is no change
    random = figure.axes[0].get_lines()[-1]
    assert random.get_ydata()[0] == 0.01


def test_words_have_a_panel_for_each_layer(evolutions):
    figure = words_picture(evolutions)
    titles = [axes.get_title() for axes in figure.axes]
    assert titles[:3] == [f"layer {layer} (50% of variance)" for layer in range(3)]
    points = [len(dots.get_offsets()) for dots in figure.axes[0].collections]
    assert points == [1, 2]
    assert not figure.axes[5].axison  # b.pt has fewer layers
