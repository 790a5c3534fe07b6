"""Links read and written: parse∘format is the identity, and every refusal says where and what."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_normalign.errors import InputError
from fairseq_normalign.text.links import (
    Gold,
    GoldFile,
    LinkFile,
    format_links,
    parse_gold,
    parse_links,
    read_together,
    refuse_other_count,
)

settings.register_profile("here", deadline=None)
settings.load_profile("here")

links = st.sets(st.tuples(st.integers(0, 200), st.integers(0, 200)), max_size=30)
indices = st.sampled_from([0, 1])


@pytest.mark.parametrize(
    ("line", "options", "expected"),
    [
        ("", {}, set()),
        ("  \n", {}, set()),
        ("0-0 1-2\n", {}, {(0, 0), (1, 2)}),
        ("1-1 2-3", {"index": 1}, {(0, 0), (1, 2)}),
        ("0-5 1-6", {"reverse": True}, {(5, 0), (6, 1)}),
        ("1-2 1-2 1p2", {}, {(1, 2)}),
        ("3p4", {}, {(3, 4)}),
        ("3-4:0.93 5-6:1e-05", {}, {(3, 4), (5, 6)}),
        ("\t007-1 ", {}, {(7, 1)}),
    ],
)
def test_parse_links(line, options, expected):
    assert parse_links(line, **options) == expected


@pytest.mark.parametrize(
    ("line", "sure", "expected"),
    [
        ("1-2 3p4", "-", Gold({(1, 2)}, {(1, 2), (3, 4)})),
        ("1-2 1p2", "-", Gold({(1, 2)}, {(1, 2)})),
        ("1p2", "-", Gold(set(), {(1, 2)})),
        ("1-2 3p4", "p", Gold({(3, 4)}, {(1, 2), (3, 4)})),
        ("1-2:1e-05 3p4:1e-05", "-", Gold({(1, 2)}, {(1, 2), (3, 4)})),
        ("", "-", Gold(set(), set())),
    ],
)
def test_parse_gold(line, sure, expected):
    assert parse_gold(line, sure=sure) == expected


@pytest.mark.parametrize("parse", [parse_links, parse_gold])
@pytest.mark.parametrize(
    ("token", "message"),
    [
        *(
            (token, "bad link")
            for token in ("3x4", "3-", "-3", "1-2-3", "a-b", "--", "³-1", "3-4:")
        ),
        *((token, "bad link") for token in ("\x00", "0-4294967296", "7-" + "9" * 5000)),
        ("0-3", "link '0-3' has index 0 where words are counted from 1"),
    ],
)
def test_a_bad_link_is_named(parse, token, message):
    with pytest.raises(InputError, match=f"^{message}"):
        parse(f"1-1 {token}", index=1)


@given(links, indices)
def test_parsing_what_was_formatted_gives_it_back(pairs, index):
    line = format_links(pairs, index=index)
    assert parse_links(line, index=index) == pairs
    tokens = [tuple(map(int, token.split("-"))) for token in line.split()]
    assert tokens == sorted(tokens)


def test_confidences_stay_with_their_links():
    assert format_links([(2, 0), (0, 1)], confidences=[0.25, 1], index=1) == "1-2:1.000 3-1:0.250"


NAACL = "0002 1 1 S\n0002 2 1 P\n0002 0 3\n4 1 2 S 0.9\n"


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_naacl_sentences_without_links_become_empty(tmp_path):
    path = write(tmp_path / "gold.wa", NAACL)
    none = Gold(set(), set())
    first = Gold({(0, 0)}, {(0, 0), (1, 0)})
    assert list(GoldFile(path, index=1)) == [none, first, none, Gold({(0, 1)}, {(0, 1)})]
    assert list(LinkFile(path, index=1)) == [set(), {(0, 0), (1, 0)}, set(), {(0, 1)}]


def test_naacl_is_filled_up_to_the_length_of_the_others(tmp_path):
    gold = GoldFile(write(tmp_path / "gold", NAACL), index=1)
    system = LinkFile(write(tmp_path / "system", "\n\n\n0-1\n0-0\n"))
    rows = list(read_together(gold, system))
    assert rows[-1] == (Gold(set(), set()), {(0, 0)})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1 1\n1 1\n", r":2: bad line '1 1'; expected 'sentence source target \[S\|P\]'"),
        ("2 1 1\n1 1 1\n", ":2: sentence 1 after 2; expected ascending order"),
        ("1 1 1\n2 x 1\n", ":2: bad line '2 x 1'"),
        (f"1 1 1\n2 {'9' * 5000} 1\n", ":2: bad line '2 9+'"),
        ("3 1 1\n1000004 1 1\n", ":2: sentence 1000004 after 3; .* at most 1000000 sentences"),
        ("30000000 1 1\n", ":1: sentence 30000000 after 1; expected ascending order, and at most"),
    ],
)
def test_naacl_refusals(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        list(LinkFile(write(tmp_path / "a", text)))


def test_errors_name_file_and_line(tmp_path):
    path = write(tmp_path / "test.talp", "0-0\n\n3x4\n")
    with pytest.raises(InputError, match=r"test\.talp:3: bad link '3x4'"):
        list(LinkFile(path))


def test_possible_links_are_kept_dropped_or_taken_as_sure(tmp_path):
    path = write(tmp_path / "gold", "0-0 1p1\n")
    both, sure = {(0, 0), (1, 1)}, {(0, 0)}
    assert list(GoldFile(path)) == [Gold(sure, both)]
    assert list(GoldFile(path, possible="drop")) == [Gold(sure, sure)]
    assert list(GoldFile(path, possible="sure")) == [Gold(both, both)]


def test_unequal_line_counts_state_both(tmp_path):
    paths = [
        write(tmp_path / name, "0-0\n" * count) for name, count in (("a", 5), ("b", 2), ("c", 3))
    ]
    with pytest.raises(
        InputError, match=r"line counts differ: \S*a has 5, \S*b has 2, \S*c has 3 lines"
    ):
        list(read_together(*map(LinkFile, paths)))


def test_links_of_another_corpus_are_refused_before_the_work(tmp_path):
    gold = GoldFile(write(tmp_path / "gold", "0-0\n" * 3))
    refuse_other_count(gold, 3)
    refuse_other_count(gold, None)
    refuse_other_count(GoldFile("/dev/stdin"), 2)  # would be empty for whoever reads it next
    for total in (2, 4):
        message = f"line counts differ: .*gold has 3, the corpus has {total} lines"
        with pytest.raises(InputError, match=message):
            refuse_other_count(gold, total)
    naacl = GoldFile(write(tmp_path / "naacl", "2 1 1 S\n"), index=1)
    refuse_other_count(naacl, 4)  # the last sentences have no links
    with pytest.raises(InputError, match="naacl has 2, the corpus has 1 lines"):
        refuse_other_count(naacl, 1)
