import pytest

from fairseq_normalign.errors import InputError
from fairseq_normalign.names import (
    KINDS,
    Head,
    all_heads,
    by_kind,
    format_heads,
    format_numbers,
    parse_heads,
    parse_kinds,
)
from tests.conftest import build_model

COUNTS = {("encoder", 0): 2, ("cross", 0): 0, ("cross", 1): 1}
HEADS = all_heads(COUNTS)


@pytest.mark.parametrize("text", ["all", "none", "encoder.1.2", "encoder.1.1 cross.2.1"])
def test_round_trip(text):
    assert format_heads(parse_heads(text, HEADS), HEADS) == text


def test_parsed_in_the_order_of_the_model():
    assert parse_heads("cross.2.1, encoder.1.2\nencoder.1.2", HEADS) == [
        Head("encoder", 0, 1),
        Head("cross", 1, 0),
    ]


@pytest.mark.parametrize(
    "text", ["encoder.0.1", "encoder.1", "self.1.1", "encoder.1.1;cross.2.1", "cross.1.1", " "]
)
def test_what_is_no_head_is_named(text):
    with pytest.raises(InputError, match=r"encoder\.1\.1|is no head|no heads are named"):
        parse_heads(text, HEADS)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], ""),
        ([0], "1"),
        ([0, 1, 2, 3], "1 to 4"),
        ([1, 3], "2, 4"),
        ([0, 1, 4, 6, 7], "1 to 2, 5, 7 to 8"),
    ],
)
def test_numbers_as_people_read_them(numbers, text):
    assert format_numbers(numbers) == text


def test_heads_of_a_pruned_model_keep_their_names():
    left = [Head("encoder", 0, 1), Head("encoder", 0, 3), Head("cross", 2, 0), Head("cross", 2, 1)]
    assert parse_heads("cross.3.2 encoder.1.4", left) == [left[1], left[3]]
    assert parse_heads("all", left) == left
    with pytest.raises(InputError) as error:
        parse_heads("encoder.1.1", left)
    expected = "head encoder.1.1: the model has no such head; it has encoder.1.2,4, cross.3.1–2"
    assert str(error.value) == expected


def test_kinds():
    assert parse_kinds("--gate-heads", "cross,encoder") == ["cross", "encoder"]
    assert parse_kinds("--gate-heads", "all") == ["encoder", "decoder", "cross"]
    assert parse_kinds("--gate-heads", None) == []
    with pytest.raises(
        InputError,
        match="--gate-heads encoder,self: unknown attention 'self'; expected any of: encoder",
    ):
        parse_kinds("--gate-heads", "encoder,self")


def test_the_table_of_kinds_is_that_of_fairseqs_models():
    names = dict(build_model().named_parameters())
    for kind in KINDS.values():
        for layer in (0, 1):
            assert f"{kind.prefix(layer)}out_proj.weight" in names
    attentions = [name for name in names if name.endswith("attn.out_proj.weight")]
    assert len(attentions) == 2 * len(KINDS)


def test_heads_by_kind_are_in_the_order_of_kinds():
    cross, first, second = Head("cross", 0, 1), Head("encoder", 0, 0), Head("encoder", 1, 2)
    assert list(by_kind([cross, first, second]).items()) == [
        ("encoder", [first, second]),
        ("cross", [cross]),
    ]
