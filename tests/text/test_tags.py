"""Tags carried over: tables, and what holds for all markup, text and links."""

from __future__ import annotations

import xml.etree.ElementTree as etree
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_normalign.errors import InputError
from fairseq_normalign.text.markup import XML, markup_pattern, parse_markup
from fairseq_normalign.text.offsets import blank_words, moses_words, plain_words
from fairseq_normalign.text.tags import project_tags


def links(text: str) -> list[tuple[int, int]]:
    return [tuple(map(int, link.split("-"))) for link in text.split()]


@pytest.mark.parametrize(
    ("source", "target", "pairs", "expected"),
    [
        ("das <b>rote</b> haus", "the red house", "0-0 1-1 2-2", "the <b>red</b> house"),
        ("<p>a <i>b</i></p>", "x y z", "0-1 1-0", "<p><i>x</i> y z</p>"),
        ("<b>a b</b> c", "x y z", "0-0 1-2 2-1", "<b>x</b> y <b>z</b>"),
        ("<b>a b</b> c", "x y z", "0-0 1-2", "<b>x y z</b>"),  # y has no link
        ("a <br/>b", "y x", "0-1 1-0", "<br/>y x"),
        ("a b<br/>", "y x", "0-1 1-0", "y x<br/>"),
        ('a <ph id="1">&lt;br&gt;</ph>b', "x y", "0-0 1-1", 'x <ph id="1">&lt;br&gt;</ph>y'),
        ("noch {0} %s da", "still there", "0-0 1-1", "still {0} %s there"),
        ("noch {0}, ja", "still, yes", "0-0 1-1", "still {0}, yes"),
        ('an <x id="1"/> von', "from on", "0-1 1-0", '<x id="1"/> from on'),
        ('um <ph id="1">%s</ph>.', "at.", "0-0", 'at <ph id="1">%s</ph>.'),
        ("<a name='x'></a>a", "x", "0-0", "<a name='x'></a>x"),
        ("a <b>b</b>", "x", "0-0", "x<b></b>"),  # b is lost: the element is empty
        ("a &amp; <b>b</b>", "x & y < z", "0-0 1-1 2-2", "x &amp; <b>y</b> &lt; z"),
        ('<bx id="1"/>a<ex id="1"/> b', "y x", "0-1 1-0", 'y <bx id="1"/>x<ex id="1"/>'),
        ("<b> a </b>b", "x y", "0-0 1-1", "<b>x</b> y"),  # tags are beside words
        ("<b>שלום</b> עולם", "hello world", "0-0 1-1", "<b>hello</b> world"),
        ("", "", "", ""),
        # Tags inside words, where the translation begins or ends with the same letters.
        ("(<b>Haus</b>), ja", "(house), yes", "0-0 1-1", "(<b>house</b>), yes"),
        ("H<sub>2</sub>O", "H2O", "0-0", "H<sub>2</sub>O"),
        ("un<b>fähig</b>", "unable", "0-0", "un<b>able</b>"),
        ("x<b>x</b>x", "x", "0-0", "<b>x</b>"),
        ("<b>שלום</b>!", "hello!", "0-0", "<b>hello</b>!"),
        # Lines end at some tags.
        ("a<br/>b", "y x", "0-1 1-0", "<br/>y x"),
        ("<td>a</td><td>b</td>", "x y", "0-0 1-1", "<td>x</td> <td>y</td>"),
        ('a<x id="1" ctype="lb"/>b', "x y", "0-0 1-1", 'x<x id="1" ctype="lb"/> y'),
        # Unlinked words stay where the source has text; empty elements out of others.
        ("<tr><td>a</td><td>b</td></tr>", "w x y", "0-1 1-2", "<tr><td>w x</td> <td>y</td></tr>"),
        ("<br/><b>a b</b>", "x y", "0-1 1-0", "<br/><b>x y</b>"),
        ("<![CDATA[a < b]]>", "x < y", "0-0 2-2", "x &lt; y"),
        ("{0:N2} a {x!r}", "x", "0-0", "{0:N2} x {x!r}"),
    ],
)
def test_tags(source, target, pairs, expected):
    assert project_tags(source, target, links(pairs)) == expected


@pytest.mark.parametrize(
    ("source", "expected", "message"),
    [
        ("<g>a b</g> c", "<g>x y z</g>", "takes words between to be one span: 1"),
        ("<g>a b</g> <i>c</i>", "<g>x</g> <i>y</i> z", "leaves out words to be one span: 1"),
    ],
)
def test_unique(source, expected, message):
    notes: list[str] = []
    pairs = links("0-0 1-2 2-1")
    assert project_tags(source, "x y z", pairs, unique=True, report=notes.append) == expected
    assert message in notes[0]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<p>a & <b>b", "<p>x &amp; <b>y"),
        ("a <b>b</i>", "x <b>y</i>"),
        ("a<BR>&nbsp;&amp; b", "x<BR> &amp; y"),
        ("<li>a 1 < b</li>", "<li>x &amp; y</li>"),
        ("<!DOCTYPE html><![if a]>a < b <a", "<!DOCTYPE html><![if a]>x &amp; y"),
    ],
)
def test_html_is_lenient(source, expected):
    words = blank_words(parse_markup(source, kind="html")[0])
    pairs = [(0, 0), (len(words) - 1, 2)]
    got = project_tags(source, "x & y", pairs, markup="html")

    def found(line):
        return [match[0] for match in markup_pattern("html", False).finditer(line)]

    assert Counter(found(got)) == Counter(found(expected))
    assert parse_markup(got, kind="html")[0] == "x & y"


@pytest.mark.parametrize(
    ("source", "target", "pairs", "message"),
    [
        ("a <b>b", "x", "", "column 3: <b> is not closed"),
        ("a </b>b", "x", "", "</b> closes another element; open: nothing"),
        ("<b><i>a</b></i>", "x", "", "column 8: </b> closes another element; open: <b> <i>"),
        ("a < b", "x", "", "column 3: bad '< b'"),
        ("a & b", "x", "", "column 3: bad '& b'"),
        ("a &nbsp; b", "x", "", "bad '&nbsp; b'"),
        ("<ph>a", "x", "", "<ph> is not closed"),
        ("<b>a</b>", "<b>x</b>", "", "the translation already has '<b>'"),
        ("a {0}", "x {1}", "", "the translation already has '{1}'"),
        ("a", "x", "0-1", "link 0-1 .* the source has 1 words and the translation 1"),
    ],
)
def test_bad_input(source, target, pairs, message):
    with pytest.raises(InputError, match=message.replace("{", r"\{")):
        project_tags(source, target, links(pairs))


@pytest.mark.parametrize(
    ("source", "pairs", "expected", "message"),
    [
        ("Haus<b>es</b>", "0-0", "<b>x</b>", "<b> in the word 'Hauses' takes it whole"),
        ("Haus<x/>es", "0-0", "<x/>x", "<x/> was inside a word; it is before it"),
        ("<br/>a b", "1-0", "<br/>x", "<br/>: the word behind it has no link"),
        ("a <b>b</b>", "0-0", "x<b></b>", "<b> is left empty: no word of the translation"),
    ],
)
def test_reports(source, pairs, expected, message):
    notes: list[str] = []
    assert project_tags(source, "x", links(pairs), report=notes.append) == expected
    assert len(notes) == 1
    assert message in notes[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Das Haus, z.B.", ["Das", "Haus", ",", "z", ".", "B", "."]),
        ("我爱Bonn。", ["我", "爱", "Bonn", "。"]),
        ("हिन्दी می‌خواهم", ["हिन्दी", "می‌خواهم"]),
        ("a\u00a0b", ["a", "b"]),
    ],
)
def test_plain_words(text, words):
    assert [text[begin:end] for begin, end in plain_words(text)] == words


def test_moses_words_keep_offsets():
    pytest.importorskip("sacremoses")
    text = "Das  ist's, 3 & <4>."
    assert "".join(text[begin:end] for begin, end in moses_words(text)) == text.replace(" ", "")


WORDS = st.sampled_from(["a", "b", "&amp;", "&lt;b&gt;", "&lt;", "ä", "我", "שלום", "x.y"])


@st.composite
def inline(draw, depth=0):
    """Words, empty elements and elements with words in them, between single blanks."""
    parts = []
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.integers(0, 5))
        if kind == 0 and depth < 3:
            name = draw(st.sampled_from(["b", "i", "g"]))
            number = draw(st.integers(0, 99))
            parts.append(f'<{name} id="{number}">{draw(inline(depth + 1))}</{name}>')
        elif kind == 1:
            parts.append(f"{draw(st.sampled_from(['<br/>', '{0}']))}{draw(WORDS)}")
        else:
            parts.append(draw(WORDS))
    return " ".join(parts)


@st.composite
def anywhere(draw, depth=0):
    """Letters and elements with letters in them, also inside words."""
    parts = []
    for _ in range(draw(st.integers(1, 5))):
        letters = draw(st.sampled_from(["a", "b", "aa", " a", "a ", "&amp;", "我"]))
        if depth < 3 and draw(st.booleans()):
            parts.append(f"<i>a{draw(anywhere(depth + 1))}a</i>")
        else:
            parts.append(letters)
    return " ".join("".join(parts).split())


@st.composite
def cases(draw):
    source = draw(st.one_of(inline(), anywhere()))
    count = len(blank_words(parse_markup(source)[0]))
    text = st.sampled_from(["x", "a", "aa", "&", "a<b", "]]>", "&amp;", " ", "  ", "ß", "我"])
    target = "".join(draw(st.lists(text, max_size=12)))
    targets = len(blank_words(target))
    some = st.tuples(st.integers(0, count - 1), st.integers(0, max(targets - 1, 0)))
    return source, target, draw(st.lists(some, max_size=12)) if targets else []


def tags(line: str) -> Counter[str]:
    return Counter(match[0] for match in markup_pattern(XML, False).finditer(line))


@settings(max_examples=400)
@given(cases(), st.booleans())
def test_text_stays_and_no_tag_is_lost(case, unique):
    source, target, pairs = case
    got = project_tags(source, target, pairs, unique=unique)
    root = etree.fromstring(f"<line>{got}</line>")  # noqa: S314  (our own)
    assert parse_markup(got, placeholders=False)[0].replace("{0}", "") == target
    assert "".join(root.itertext()).replace("{0}", "") == target
    assert set(tags(got)) == set(tags(source))
    assert tags(source) <= tags(got)
    if unique:
        assert tags(got) == tags(source)
    assert got.count("{0}") == source.count("{0}")


@settings(max_examples=300)
@given(st.one_of(inline(), anywhere()))
def test_identity_gives_the_source_back(source):
    text = parse_markup(source)[0]
    pairs = [(place, place) for place in range(len(blank_words(text)))]
    assert project_tags(source, text, pairs) == source


@settings(max_examples=300)
@given(st.text("<>&/ab'\"={}%s!-[]?# ;", max_size=30), st.text(max_size=20))
def test_html_takes_everything(source, target):
    try:
        got = project_tags(source, target, [], markup="html", placeholders=False)
    except InputError as error:
        assert "already has" in str(error)
    else:
        assert parse_markup(got, kind="html", placeholders=False)[0] == target
