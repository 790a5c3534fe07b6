import pytest

from fairseq_normalign.errors import InputError
from fairseq_normalign.names import Head, all_heads, format_heads, parse_heads, parse_kinds

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
    with pytest.raises(InputError, match=r"no such head|is no head|no heads are named"):
        parse_heads(text, HEADS)


def test_heads_of_a_pruned_model_keep_their_names():
    left = [Head("encoder", 0, 1), Head("encoder", 0, 3), Head("cross", 2, 0), Head("cross", 2, 1)]
    assert parse_heads("cross.3.2 encoder.1.4", left) == [left[1], left[3]]
    assert parse_heads("all", left) == left
    with pytest.raises(InputError) as error:
        parse_heads("encoder.1.1", left)
    expected = (
        "head encoder.1.1: the model has no such head; its layer has encoder.1.2, encoder.1.4"
    )
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
