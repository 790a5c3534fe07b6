"""Numbers as people write them, and what Python alone would read."""

import pytest

from fairseq_normalign.decimals import decimal


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("007", 7), ("2.5", 2.5), ("3.", 3), (".5", 0.5), ("1e-3", 0.001), ("2E+5", 2e5)],
)
def test_numbers(text, value):
    assert decimal(text) == value


ODD = [
    "",
    "-1",
    "+1",
    "-0",
    "nan",
    "inf",
    "1_000",
    "１",
    "٣",
    " 1",
    "1\u00a0",
    "1e",
    "e5",
    ".",
    "0x1",
]


@pytest.mark.parametrize("text", [*ODD, "1e999", "1e-1000", "9" * 400, "1.5.2", "1,5"])
def test_what_is_none(text):
    with pytest.raises(ValueError, match="is no number"):
        decimal(text)
