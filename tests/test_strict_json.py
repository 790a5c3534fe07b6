"""JSON that every program reads alike."""

import pytest

from fairseq_normalign.strict_json import parse_json


def test_json():
    assert parse_json('{"a": [1, 2.5, null, true, "é"], "b": {"a": 1e3}}') == {
        "a": [1, 2.5, None, True, "é"],
        "b": {"a": 1000.0},
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("NaN", "NaN is no JSON"),
        ("[-Infinity]", "-Infinity is no JSON"),
        ("1e999", "1e999 is too large"),
        ('{"a": {"b": 1, "b": 1}}', "a name comes twice"),
        ("[" * 100_000, "nested too deeply"),
        ("{", "Expecting property name"),
        ("9" * 5000, "digits"),
    ],
)
def test_what_is_none(text, message):
    with pytest.raises(ValueError, match=message):
        parse_json(text)
