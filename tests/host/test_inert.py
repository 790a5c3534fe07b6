import pytest

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.inert import LONGEST, RefusedOption, evaluate


@pytest.mark.parametrize(
    "text",
    [
        "[(512, 3)] * 4 + [(1024, 3)]",  # --encoder-layers of fconv
        "[(512, 10, 5)] + [(512, 3, 2)] * 4 + [(512,2,2)]",  # --conv-feature-layers of wav2vec 2
        "((32, 3, 2, 2, True),) * 2",
        "(0.9, 0.98)",  # --adam-betas
        "1e-3,2e-3",
        " [1, 2]\n",
        "False",
        "None",
        "-1.5",
        "2 * 3 - 7",
        "{'name': 'x', \"k\": [1]}",  # a line of manifest, --xformers-att-config
        "{1, 2}",
        "'a' 'b'",
        "10000,50000",
    ],
)
def test_values_are_those_of_eval(text):
    assert evaluate(text) == eval(text.strip())


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "[(512, 3)] or open('x', 'w')",
        "().__class__.__base__.__subclasses__()",
        "[x for x in (1, 2)]",
        "(lambda: 1)()",
        "f'{1}'",
        "{**{}}",
        "[*(1, 2)]",
        "torch",
        "x := 1",
        "import os",
        "",
        "[" * 500,
        "(" * 50 + "1" + ")" * 50 + "()",
        "-" * 100_000 + "1",
        f"[0] * {LONGEST + 1}",
        f"{LONGEST + 1} * 'a'",
        "10 ** 10",
        "1 / 0",
        "9" * 400 + " * 1.5",  # too large for a float
        "'%999999999d' % 1",
        "\0",
    ],
)
def test_nothing_else_is_evaluated(text):
    with pytest.raises(RefusedOption, match=r"which fairseq would run as Python; expected numbers"):
        evaluate(text)


def test_long_options_are_cut_and_stay_in_one_line():
    with pytest.raises(InputError) as raised:
        evaluate("f(\n" + "1 +" * 100)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 200
