"""Hypothesis strategies: files that were whole once, and words that no command line expects."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hypothesis import strategies as st

NUMBER = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?")

# Numbers that some readers take and others do not, or read otherwise.
ODD_NUMBERS = [
    *("0", "1", "-1", "-0", "007", "+1", "1_000", "1.0", "1e3", "1e999", "-1e-999", "0x10"),
    *("１", "٣", "²", "½", "NaN", "nan", "Infinity", "-inf", "2147483647", "2147483648"),
    *("9" * 20, "9" * 400, "9" * 5000, "1" + "0" * 4300),
]
# Blanks that Python's str.split takes for white space, and others that nobody sees.
ODD_BLANKS = [
    *("\u00a0", "\u2028", "\u2029", "\u3000", "\u0085", "\x1c", "\x1d", "\x1e", "\x1f"),
    *("\u200b", "\ufeff", "\u1680", "\u2003", "\x0b", "\x0c", "\r", "\r\n", "\n", "\t", " ", "  "),
]
ODD_TEXTS = [
    *("\0", "\x1b[2J", "\\", "'", '"', "{", "}", "[", "]", ",", ":", "-", "p", ".", "*", "#"),
    *("\ud800", "\U0001f600", "e\u0301", "\u202e", "\\ud800", "null", "true", "{}", "[]", '""'),
    *("[" * 3000, '{"a":' * 3000, "(" * 300, "x" * 300, "<unk>", "<pad>", "</s>", "%s", "%n"),
    *("../..", "/dev/null", "~", "$HOME", "`id`", "a:b", "=", "--", "-x"),
]
ODD_BYTES = [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5", b"\x80", b"\xef\xbb\xbf", b"\xff\xfe"]


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


SNIPPETS = st.sampled_from(
    [*map(encoded, (*ODD_NUMBERS, *ODD_BLANKS, *ODD_TEXTS)), *ODD_BYTES]
) | st.binary(max_size=8)


def _place(draw, content: bytes) -> int:
    return draw(st.integers(0, len(content)))


def _flipped(draw, content: bytes) -> bytes:
    if not content:
        return content
    changed = bytearray(content)
    changed[_place(draw, content[1:])] ^= 1 << draw(st.integers(0, 7))
    return bytes(changed)


def _cut_off(draw, content: bytes) -> bytes:
    return content[: _place(draw, content)]


def _inserted(draw, content: bytes) -> bytes:
    place = _place(draw, content)
    return content[:place] + draw(SNIPPETS) + content[place:]


def _replaced(draw, content: bytes) -> bytes:
    start = _place(draw, content)
    end = min(len(content), start + draw(st.integers(0, 12)))
    return content[:start] + draw(SNIPPETS) + content[end:]


def _renumbered(draw, content: bytes) -> bytes:
    """Another number in the place of one that is there."""
    places = list(NUMBER.finditer(content))
    if not places:
        return content
    match = draw(st.sampled_from(places))
    number = encoded(draw(st.sampled_from(ODD_NUMBERS)))
    return content[: match.start()] + number + content[match.end() :]


def _relined(draw, content: bytes) -> bytes:
    """A line that comes twice, is gone, or stands elsewhere."""
    lines = content.splitlines(keepends=True)
    if not lines:
        return content
    place = draw(st.integers(0, len(lines) - 1))
    change = draw(st.sampled_from(("double", "remove", "move", "end")))
    line = lines[place]
    if change != "double":
        del lines[place]
    if change in ("double", "move"):
        lines.insert(draw(st.integers(0, len(lines))), line)
    if change == "end":
        lines.insert(place, line.rstrip(b"\r\n") + draw(st.sampled_from([b"\r\n", b"\r", b""])))
    return b"".join(lines)


DAMAGES = (_flipped, _cut_off, _inserted, _replaced, _renumbered, _relined)


@st.composite
def damaged(draw, wholes: Sequence[bytes]) -> bytes:
    """One of some files, changed in up to four ways; sometimes as it was, sometimes mere noise."""
    content = draw(st.sampled_from(list(wholes)))
    for damage in draw(st.lists(st.sampled_from(DAMAGES), max_size=4)):
        content = damage(draw, content)
    return content


def files(wholes: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """What a parser of such files may be given."""
    return st.one_of(damaged(wholes), damaged(wholes), damaged(wholes), st.binary(max_size=200))


def words(wholes: Sequence[str]) -> st.SearchStrategy[str]:
    """What an option that takes such words may be given."""
    odd = st.sampled_from([*ODD_NUMBERS, *ODD_BLANKS, *ODD_TEXTS])
    joined = st.lists(st.sampled_from(list(wholes)) | odd, min_size=1, max_size=3).map("".join)
    changed = damaged([encoded(word) for word in wholes]).map(
        lambda content: content.decode("utf-8", "surrogateescape")
    )
    return st.sampled_from(list(wholes)) | odd | joined | changed
