"""Three made-up models: what table, JSON and pictures say of them."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from fairseq_normalign.names import Head
from fairseq_normalign.report.pictures import save
from fairseq_normalign.report.pruning import (
    as_json,
    comparison_table,
    heads_of,
    pruning_picture,
    varied_kind,
)


def row(
    name: str, heads: dict, bleu: float, speed: float, layer: int, scratch=None
) -> SimpleNamespace:
    by_layer = {}
    for kind, counts in heads.items():
        for number, count in enumerate(counts):
            by_layer[kind, number] = count
    made = {"BLEU": "tok:none", "AER": f"AER|layer:auto:{layer}"}
    sizes = {"parameters": 4_973_568, "megabytes": 19.94544}
    return SimpleNamespace(
        name=name,
        heads=by_layer,
        **sizes,
        scores={"BLEU": bleu, "AER": 37.25},
        signatures=made,
        speed=speed,
        names=(Head("cross", 0, 3),),
        scratch=scratch,
    )


@pytest.fixture
def rows():
    return [
        row(
            "half.pt", {"encoder": (0, 1), "decoder": (2, 0), "cross": (4, 3)}, 20.55, 1.0, layer=1
        ),
        row(
            "full.pt",
            {"encoder": (4, 4), "decoder": (4, 4), "cross": (4, 4)},
            21.34,
            0.875,
            layer=2,
        ),
        row(
            "small.pt", {"encoder": (0, 0), "decoder": (0, 0), "cross": (1, 2)}, 9.96, 1.5, layer=1
        ),
    ]


TABLE = """\
model     heads  e  d  d-e  params    MB  BLEU   AER  speed
half.pt      10  1  2    7    4.97  19.9  20.6  37.2  1.00×
full.pt      24  8  8    8    4.97  19.9  21.3  37.2  0.88×
small.pt      3  0  0    3    4.97  19.9  10.0  37.2  1.50×
"""


def test_table(rows):
    text = comparison_table(rows)
    assert text.startswith(TABLE)
    assert text.endswith(
        "\nBLEU: tok:none\nAER of half.pt: AER|layer:auto:1\nAER of full.pt: AER|layer:auto:2\n"
        "AER of small.pt: AER|layer:auto:1"
    )
    assert comparison_table(rows[::2]).endswith("\nBLEU: tok:none\nAER: AER|layer:auto:1")


def test_heads_are_counted_by_kind_and_in_all(rows):
    assert [heads_of(rows[0], kind) for kind in (None, "encoder", "decoder", "cross")] == [
        10,
        1,
        2,
        7,
    ]


def test_json(rows):
    (written, *_) = json.loads(json.dumps(as_json(rows)))
    assert written == {
        "model": "half.pt",
        "names": ["cross.1.4"],
        "heads": 10,
        "encoder_heads": [0, 1],
        "decoder_heads": [2, 0],
        "cross_heads": [4, 3],
        "parameters": 4973568,
        "megabytes": 19.945,
        "BLEU": 20.55,
        "AER": 37.25,
        "speed": 1.0,
        "signatures": {"BLEU": "tok:none", "AER": "AER|layer:auto:1"},
    }


def test_pictures_show_the_models_by_number_of_heads(rows):
    quality, alignment, kinds, layers = pruning_picture(rows).axes
    (line,) = quality.lines
    assert alignment.get_ylabel() == "AER"
    assert [y for _, y in alignment.lines[0].get_xydata()] == [37.25] * 3
    assert line.get_xydata().tolist() == [[3, 9.96], [10, 20.55], [24, 21.34]]
    assert {text.get_text(): text.xy for text in quality.texts} == {
        "small.pt": (3, 9.96),
        "half.pt": (10, 20.55),
        "full.pt": (24, 21.34),
    }
    drawn = {line.get_label(): line.get_xydata().tolist() for line in kinds.lines}
    assert drawn == {
        "encoder self-attention": [[3, 0], [10, 1], [24, 8]],
        "decoder self-attention": [[3, 0], [10, 2], [24, 8]],
        "source–target attention": [[3, 3], [10, 7], [24, 8]],
    }
    counts = [[4, 4, 4, 4, 4, 4], [0, 1, 2, 0, 4, 3], [0, 0, 0, 0, 1, 2]]
    np.testing.assert_array_equal(layers.images[0].get_array(), counts)
    assert [label.get_text() for label in layers.get_yticklabels()] == [
        "full.pt",
        "half.pt",
        "small.pt",
    ]
    assert [label.get_text() for label in layers.get_xticklabels()] == [
        "e\n1",
        "e\n2",
        "d\n1",
        "d\n2",
        "d-e\n1",
        "d-e\n2",
    ]
    assert {(*text.get_position()[::-1], text.get_text()) for text in layers.texts} == {
        (y, x, str(count)) for y, line in enumerate(counts) for x, count in enumerate(line)
    }


@pytest.mark.parametrize("heads", [0, 4])
def test_one_model_alone_can_be_drawn(heads, tmp_path):
    alone = row(
        "a.pt", {"encoder": (heads,), "decoder": (heads,), "cross": (heads,)}, 0.0, 1.0, layer=1
    )
    save(pruning_picture([alone]), tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_models_may_differ_in_depth(rows):
    deep = row(
        "deep.pt", {"encoder": (4, 4, 2), "decoder": (1,), "cross": (3,)}, 20.0, 1.0, layer=1
    )
    *_, layers = pruning_picture([*rows, deep]).axes
    assert layers.images[0].get_array()[1].tolist() == [4, 4, 2, 1, 0, 3, 0]


@pytest.fixture
def with_scratch(rows):
    half, full, small = rows
    heads = {"encoder": (0, 1), "decoder": (2, 0), "cross": (4, 3)}
    half.scratch = row("scratch/half.pt", heads, 19.25, 1.0, layer=2)
    return [full, half, small]


FROM_SCRATCH = """\
                                          from trained   from scratch
model     heads  e  d  d-e  params    MB  BLEU   AER  |  BLEU   AER  |  speed
full.pt      24  8  8    8    4.97  19.9  21.3  37.2  |     –     –  |  0.88×
half.pt      10  1  2    7    4.97  19.9  20.6  37.2  |  19.2  37.2  |  1.00×
small.pt      3  0  0    3    4.97  19.9  10.0  37.2  |     –     –  |  1.50×
"""


def test_models_from_scratch_stand_beside_the_trained(with_scratch):
    text = comparison_table(with_scratch)
    assert text.startswith(FROM_SCRATCH)
    assert "AER of scratch/half.pt: AER|layer:auto:2" in text
    full, half, _ = json.loads(json.dumps(as_json(with_scratch)))
    assert "scratch" not in full
    assert (half["scratch"]["model"], half["scratch"]["BLEU"]) == ("scratch/half.pt", 19.25)
    quality, alignment, *_ = pruning_picture(with_scratch).axes
    trained, scratch = quality.lines
    assert [trained.get_label(), scratch.get_label()] == ["from trained", "from scratch"]
    assert scratch.get_xydata().tolist() == [[10, 19.25]]
    assert trained.get_linestyle() != scratch.get_linestyle()  # told apart without colour
    assert len(alignment.lines) == 2


def test_models_that_differ_in_one_kind_alone_are_drawn_by_it():
    """BLEU against encoder heads left (Voita et al., 2019, Fig. 7)."""
    rows = []
    for left in (4, 1, 2):
        heads = {"encoder": (left,), "decoder": (4,), "cross": (3,)}
        rows.append(row(f"{left}.pt", heads, 10.0 + left, 1.0, layer=1))
    assert varied_kind(rows) == "encoder"
    quality, alignment, layers = pruning_picture(rows).axes
    assert quality.lines[0].get_xydata().tolist() == [[1, 11], [2, 12], [4, 14]]
    for axes in (quality, alignment):
        assert axes.get_xlabel() == "heads of encoder self-attention"
    assert [label.get_text() for label in layers.get_yticklabels()] == ["4.pt", "2.pt", "1.pt"]
    assert varied_kind(rows[:1]) is None
