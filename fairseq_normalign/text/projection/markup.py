"""Lines with inline markup, as text and elements.

Elements are those of XML, XLIFF 1.2 and TMX, or of HTML. Placeholders such as ``{0}`` and ``%s``
are empty elements.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from fairseq_normalign.errors import InputError

XML, HTML, TEXT = "xml", "html", "text"  # TEXT has placeholders alone

ATTRIBUTE = r"""\s+[^\s=<>"'/]+\s*=\s*(?:"[^"<]*"|'[^'<]*')"""
OTHER = r"<!--.*?-->|<\?.*?\?>"  # comments, processing instructions
TAG = {
    XML: re.compile(rf"<(/?)([^\W\d][\w:.-]*)((?:{ATTRIBUTE})*)\s*(/?)>|{OTHER}"),
    HTML: re.compile(
        r"""<(/?)([A-Za-z][^\s/>]*)((?:[^>"'/]|"[^"]*"|'[^']*'|/(?!>))*)(/?)>|"""
        rf"{OTHER}|<![A-Za-z][^>]*>"
    ),
}
CDATA = re.compile(r"<!\[CDATA\[(.*?)\]\]>")
ENTITY = re.compile(r"&(?:amp|lt|gt|quot|apos|#[0-9]+|#x[0-9A-Fa-f]+);")
VOID = {*("area", "base", "br", "col", "embed", "hr", "img", "input"), *("link", "meta", "wbr")}
# Elements whose content is code, not text: of XLIFF 1.2 and TMX, and of HTML.
CODE = {XML: {"ph", "bpt", "ept", "it"}, HTML: {"script", "style", "ph", "bpt", "ept", "it"}}
# Two empty elements that are the beginning and the end of one span.
HALVES = {"bx": "start", "bpt": "start", "ex": "end", "ept": "end"}
HALF_ID = (re.compile(r"""\s(?:rid|i)=["']([^"']*)"""), re.compile(r"""\sid=["']([^"']*)"""))
PLACEHOLDER = re.compile(
    r"\$?\{\{?[\w.]+(?:,[^{}]*)?\}?\}"
    r"|(?<![0-9%])%(?:[0-9]+\$|\([\w.]+\))?[-+0#]*[0-9]*(?:\.[0-9]+)?l{0,2}[sdifuxXceg@](?![^\W\d_])"
)


ONLY_TAGS = re.compile("(?:<[^<>]*>)*")


class Tag(NamedTuple):
    """A tag, or an element whose content is no text."""

    raw: str
    kind: str  # "start", "end" or "empty"
    name: str  # of an element; a start and an end of one name go together
    offset: int  # in the text


@dataclass
class Element:
    """An element: two tags; or one that stands alone, whose ``close`` is ''."""

    open: str
    close: str
    begin: int  # in the text
    end: int
    path: tuple[int, ...]  # elements around it, from outside
    tags: list[str] = field(default_factory=list)  # its own and those within it
    alone: str = ""  # "start", "end": half of a pair; "empty"
    once: bool = False  # may not be closed and opened again


@dataclass
class Markup:
    """A line: its text, its elements in the order of their beginnings."""

    text: str
    elements: list[Element]


def parse_markup(line: str, *, kind: str = XML, placeholders: bool = True) -> Markup:
    """The text and the elements of a line.

    Strict for XML. HTML is lenient: what is no tag is text, and tags without their partner, such as
    those of a block that goes on in the next line, stand alone.
    """
    texts: list[str] = []
    tags: list[Tag] = []
    length = 0
    for piece in _pieces(line, kind, placeholders):
        if isinstance(piece, str):
            texts.append(piece)
            length += len(piece)
        else:
            tags.append(piece._replace(offset=length))
    return Markup("".join(texts), _elements(tags, strict=kind == XML))


def _pieces(line: str, kind: str, placeholders: bool) -> Iterator[str | Tag]:
    """Texts and tags in turn."""
    place = 0
    while place < len(line):
        at = line.find("<", place) if kind != TEXT else -1
        if at != place:
            text = line[place : at if at >= 0 else None]
            before, after = line[:place], line[place + len(text) :]
            is_edge = (bool(ONLY_TAGS.fullmatch(before)), bool(ONLY_TAGS.fullmatch(after)))
            yield from _divided(_unescaped(text, place, kind), placeholders, *is_edge)
            place += len(text)
        elif match := TAG[kind].match(line, place):
            tag = _tag(match, line, kind)
            yield tag
            place += len(tag.raw)
        elif match := CDATA.match(line, place):
            yield from _divided(match[1], placeholders)
            place = match.end()
        elif kind == HTML:
            yield "<"
            place += 1
        else:
            raise InputError(f"column {place + 1}: no tag: {line[place : place + 20]!r}; {HINT}")


HINT = "expected well-formed XML (--html is lenient, --text has no tags)"


def _tag(match: re.Match[str], line: str, kind: str) -> Tag:
    slash, name, attributes, empty = match.groups()
    raw = match[0]
    if name is None:
        return Tag(raw, "empty", "", 0)
    name = name.lower() if kind == HTML else name
    if kind == XML:
        _unescaped(raw, match.start(), kind)
    if slash:
        return Tag(raw, "end", name, 0)
    if not empty and name in CODE[kind]:
        close = re.compile(rf"</{re.escape(name)}\s*>", re.IGNORECASE if kind == HTML else 0)
        end = close.search(line, match.end())
        if end is None and kind == XML:
            raise InputError(f"column {match.start() + 1}: {raw} is not closed; {HINT}")
        raw = line[match.start() : end.end()] if end else raw
        empty = "/"
    if name in HALVES and empty:
        found = [pattern.search(attributes) for pattern in HALF_ID]
        number = next((match[1] for match in found if match), "")
        return Tag(raw, HALVES[name], f"half {number}", 0)
    is_empty = empty or (kind == HTML and name in VOID)
    return Tag(raw, "empty" if is_empty else "start", name, 0)


def _unescaped(text: str, place: int, kind: str) -> str:
    if kind == TEXT:
        return text
    if kind == XML:
        for match in re.finditer("&", text):
            if not ENTITY.match(text, match.start()):
                found = text[match.start() : match.start() + 12]
                raise InputError(
                    f"column {place + match.start() + 1}: bad entity {found!r}; {HINT}"
                )
    return html.unescape(text)


def _divided(
    text: str, placeholders: bool, is_first: bool = False, is_last: bool = False
) -> Iterator[str | Tag]:
    """Texts and placeholders in turn.

    A placeholder that stands as a word has one of the blanks around it, so that the text without it
    has single blanks.
    """
    end = 0
    for match in PLACEHOLDER.finditer(text) if placeholders else ():
        begin, after = match.span()
        opens = text[begin - 1] == " " if begin else is_first
        if opens and text[after : after + 1] == " ":
            after += 1
        elif is_last and begin > end and text[begin - 1] == " " and after == len(text):
            begin -= 1
        yield text[end:begin]
        yield Tag(text[begin:after], "empty", "", 0)
        end = after
    yield text[end:]


def _elements(tags: list[Tag], *, strict: bool) -> list[Element]:
    """Pairs starts and ends; what has no partner stands alone, or is refused if strict."""
    partner = _partners(tags, strict)
    elements: list[Element] = []
    path: list[int] = []
    for place, tag in enumerate(tags):
        for around in path:
            elements[around].tags.append(tag.raw)
        if place in partner.values():
            path.pop()
            continue
        number = len(elements)
        element = Element(tag.raw, "", tag.offset, tag.offset, tuple(path), [tag.raw], tag.kind)
        elements.append(element)
        if place in partner:
            end = tags[partner[place]]
            element.close, element.end, element.alone = end.raw, end.offset, ""
            element.once = tag.name.startswith("half ")
            path.append(number)
    return elements


def _partners(tags: list[Tag], strict: bool) -> dict[int, int]:
    """The place of the end by the place of the start; pairs do not cross."""
    partner: dict[int, int] = {}
    opened: list[int] = []
    for place, tag in enumerate(tags):
        is_half = tag.name.startswith("half ")
        if tag.kind == "start":
            opened.append(place)
        elif tag.kind == "end":
            same = [start for start in opened if tags[start].name == tag.name]
            inner = [tags[start] for start in opened[opened.index(same[-1]) + 1 :]] if same else []
            open_tags = [each for each in inner if not each.name.startswith("half ")]
            if is_half and (not same or open_tags):
                continue  # XLIFF lets them cross other elements
            if strict and (not same or open_tags):
                last = (
                    f"{open_tags[-1].raw} is open" if open_tags else "nothing of this name is open"
                )
                raise InputError(f"{tag.raw}: {last}; {HINT}")
            if same:
                partner[same[-1]] = place
                del opened[opened.index(same[-1]) :]
    for start in opened:
        if strict and not tags[start].name.startswith("half "):
            raise InputError(f"{tags[start].raw} is not closed; {HINT}")
    return partner
