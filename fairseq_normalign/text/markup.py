"""Lines with inline markup, read as text and elements: XML, XLIFF 1.2 and TMX, or HTML.

Placeholders such as ``{0}`` and ``%s`` are empty elements.
"""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from fairseq_normalign.errors import InputError
from fairseq_normalign.text.offsets import Span, Tokenizer

XML, HTML = "xml", "html"
HINT = "expected well-formed XML (--html is lenient)"

ENTITY = r"&(?:amp|lt|gt|quot|apos|#[0-9]+|#x[0-9A-Fa-f]+);"
NO_TEXT = re.compile(rf"<|(?!{ENTITY})&")  # in XML
ATTRIBUTES = {
    XML: rf"""(?:\s+[^\s=<>"'/]+\s*=\s*(?:"(?:[^"<&]|{ENTITY})*"|'(?:[^'<&]|{ENTITY})*'))*\s*""",
    HTML: r"""(?:[^<>"'/]|"[^"]*"|'[^']*'|/(?!>))*""",
}
# The content of these is code, not text.
CODE = {XML: "ph|bpt|ept|it", HTML: "ph|bpt|ept|it|script|style"}
NAME = {XML: r"[^\W\d][\w:.-]*", HTML: r"[A-Za-z][^\s/>]*"}
CDATA = "<![CDATA["
OTHER = {
    XML: rf"<!--.*?-->|<\?.*?\?>|{re.escape(CDATA)}.*?\]\]>",
    HTML: r"<!--.*?-->|<\?.*?\?>|<[!?][^>]*>",
}
VOID = {*("area", "base", "br", "col", "embed", "hr", "img", "input"), *("link", "meta", "wbr")}
# Two empty elements that are the beginning and the end of one span, and what they have in common.
HALVES = {"bx": "start", "bpt": "start", "ex": "end", "ept": "end"}
HALF_ID = re.compile(r"""[^>]*\s(?:rid|i)=["']([^"']*)|[^>]*\sid=["']([^"']*)""")
# No word goes on behind these: HTML's blocks and XLIFF's line breaks.
BREAK = re.compile(
    r"</?(?:br|hr|p|div|pre|blockquote|[uod]l|li|d[td]|table|t[rdh]|h[1-6]|title|option)\b"
    r"""|<[^>]*\sctype=["']lb""",
    re.IGNORECASE,
)

PLACEHOLDER = (
    r"\$?\{\{?[\w.]+(?:[,:!][^{}]*)?\}?\}|(?<![0-9%])%(?:[0-9]+\$|\([\w.]+\))?"
    r"[-+0#]*[0-9]*(?:\.[0-9]+)?l{0,2}[sdifuxXceg@](?![^\W\d_])"
)
PLAIN = r"""(?:\s+[\w:.-]+\s*=\s*(?:"[^"<&]*"|'[^'<&]*'))*\s*"""  # attributes
WORD = rf"<x(?=[\s/]){PLAIN}/>|<ph(?=[\s/>]){PLAIN}(?:/>|>[^<]*</ph>)"  # stands for text


@functools.cache
def markup_pattern(kind: str, placeholders: bool) -> re.Pattern[str]:
    """Tags; and what stands for words, with one of the blanks around, as text has single ones.

    Args:
        placeholders: whether {0} and %s are markup.
    """
    words = f"{WORD}|{PLACEHOLDER}" if placeholders else WORD
    attributes = ATTRIBUTES[kind]
    code = rf"<(?P<code>{CODE[kind]})(?=[\s>]){attributes}>.*?</(?P=code)\s*>"
    tag = rf"<(?P<slash>/?)(?P<name>{NAME[kind]}){attributes}(?P<empty>/?)>"
    before = rf"(?: (?:{words}))+(?=(?:<[^<>]*>)*(?:$|[.,;:!?)\]]))"
    return re.compile(rf"{before}|(?<![^ ])(?:{words}) |{words}|{code}|{tag}|{OTHER[kind]}")


class Tag(NamedTuple):
    """A tag, or an element whose content is no text."""

    raw: str
    kind: str  # "start", "end" or "empty"
    name: str  # a start and an end of one name go together
    is_half: bool  # of two empty elements that make a span
    offset: int  # in the text
    is_behind: bool  # right behind a word
    column: int  # in the line, from 1


Path = tuple[int, ...]  # elements around a word, from outside


class Element(NamedTuple):
    """An element: two tags; or one that stands alone, whose ``close`` is ''."""

    tag: Tag  # the first one
    close: str
    whole: str  # its own tags and those within it
    end: int  # in the text
    path: Path  # elements around it

    @property
    def open(self) -> str:
        return self.tag.raw

    @property
    def begin(self) -> int:
        return self.tag.offset


def parse_markup(
    line: str, *, kind: str = XML, placeholders: bool = True
) -> tuple[str, list[Element]]:
    """The text of a line, and its elements in the order of their beginnings.

    Strict for XML. HTML is lenient: what is no tag is text, and tags without their partner, such as
    those of a block that goes on in the next line, stand alone.
    """
    text = ""
    tags: list[Tag] = []
    place = 0
    for match in markup_pattern(kind, placeholders).finditer(line):
        text += _text(line, place, match.start(), kind)
        place = match.end()
        if kind == XML and match[0].startswith(CDATA):
            text += match[0][len(CDATA) : -len("]]>")]
        else:
            tags.append(_tag(match, kind, text))
    text += _text(line, place, len(line), kind)
    return text, _elements(tags, strict=kind == XML)


def _text(line: str, begin: int, end: int, kind: str) -> str:
    wrong = NO_TEXT.search(line, begin, end)
    if wrong and kind == XML:
        place = wrong.start()
        raise InputError(f"column {place + 1}: bad {line[place : place + 12]!r}; {HINT}")
    return html.unescape(line[begin:end])


def _tag(match: re.Match[str], kind: str, before: str) -> Tag:
    raw = match[0]
    name = match["code"] or match["name"] or ""
    is_empty = not match["name"] or bool(match["empty"])
    if kind == HTML:
        name = name.lower()
        is_empty = is_empty or name in VOID
    is_half = is_empty and name in HALVES
    role = "end" if match["slash"] else "empty" if is_empty else "start"
    if is_half:
        role = HALVES[name]
        found = HALF_ID.match(raw)
        name = f"half {found[found.lastindex or 0] if found else ''}"
    is_behind = bool(before[-1:].strip())
    return Tag(raw, role, name, is_half, len(before), is_behind, match.start() + 1)


def _elements(tags: list[Tag], *, strict: bool) -> list[Element]:
    """Elements of tags; what has no partner stands alone, or is refused if strict."""
    partner = _partners(tags, strict)
    ends = set(partner.values())
    elements: list[Element] = []
    path: Path = ()
    for place, tag in enumerate(tags):
        if place in ends:
            path = path[:-1]
            continue
        last = partner.get(place, place)
        close = tags[last].raw if last > place else ""
        whole = "".join(inner.raw for inner in tags[place : last + 1])
        elements.append(Element(tag, close, whole, tags[last].offset, path))
        if close:
            path = (*path, len(elements) - 1)
    return elements


def _partners(tags: list[Tag], strict: bool) -> dict[int, int]:
    """The place of the end by the place of the start; pairs do not cross."""
    partner: dict[int, int] = {}
    opened: list[int] = []
    for place, tag in enumerate(tags):
        if tag.kind == "start":
            opened.append(place)
        if tag.kind != "end":
            continue
        same = [depth for depth, start in enumerate(opened) if tags[start].name == tag.name]
        inner = opened[same[-1] + 1 :] if same else []
        is_crossed = any(not tags[start].is_half for start in inner)
        if same and not (is_crossed and (strict or tag.is_half)):
            partner[opened[same[-1]]] = place
            del opened[same[-1] :]
        elif strict and not tag.is_half:  # XLIFF lets halves cross other elements
            found = " ".join(tags[start].raw for start in opened) or "nothing"
            raise InputError(
                f"column {tag.column}: {tag.raw} closes another element; open: {found}; {HINT}"
            )
    for start in opened:
        if strict and not tags[start].is_half:
            raise InputError(
                f"column {tags[start].column}: {tags[start].raw} is not closed; {HINT}"
            )
    return partner


def marked_words(text: str, elements: Iterable[Element], tokenizer: Tokenizer) -> list[Span]:
    """Words of a text, divided at tags that break lines."""
    breaks: set[int] = set()
    for element in elements:
        if BREAK.match(element.open):
            breaks |= {element.begin, element.end}
    words: list[Span] = []
    for begin, end in tokenizer(text):
        inside = [place for place in breaks if begin < place < end]
        words += pairwise([begin, *sorted(inside), end])
    return words
