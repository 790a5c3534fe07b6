"""Markup of a source, carried over to a plain translation by word links.

Lines with inline markup become text and elements: those of XML, XLIFF 1.2 and TMX, or of HTML.
Placeholders such as ``{0}`` and ``%s`` are empty elements.

Each word of the translation takes the elements of the source words that it is linked to. A word
without links takes those that its neighbours share. So elements nest as in the source; one whose
words land in several places is closed and opened again. Tags that stand alone go before the word
that is linked to the word behind them, as in CAT tools.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from operator import itemgetter
from typing import NamedTuple

from fairseq_normalign.errors import InputError
from fairseq_normalign.text.links import Link
from fairseq_normalign.text.offsets import (
    Span,
    Tokenizer,
    blank_words,
    checked_links,
    runs_of,
)

XML, HTML = "xml", "html"
HINT = "expected well-formed XML (--html is lenient)"

ENTITY = r"&(?:amp|lt|gt|quot|apos|#[0-9]+|#x[0-9A-Fa-f]+);"
NO_TEXT = re.compile(rf"<|(?!{ENTITY})&")  # in XML
ATTRIBUTES = {
    XML: rf"""(?:\s+[^\s=<>"'/]+\s*=\s*(?:"(?:[^"<&]|{ENTITY})*"|'(?:[^'<&]|{ENTITY})*'))*\s*""",
    HTML: r"""(?:[^>"'/]|"[^"]*"|'[^']*'|/(?!>))*""",
}
# The content of these is code, not text.
CODE = {XML: "ph|bpt|ept|it", HTML: "ph|bpt|ept|it|script|style"}
NAME = {XML: r"[^\W\d][\w:.-]*", HTML: r"[A-Za-z][^\s/>]*"}
OTHER = {XML: r"<!--.*?-->|<\?.*?\?>", HTML: r"<!--.*?-->|<\?.*?\?>|<![A-Za-z][^>]*>"}
VOID = {*("area", "base", "br", "col", "embed", "hr", "img", "input"), *("link", "meta", "wbr")}
# Two empty elements that are the beginning and the end of one span, and what they have in common.
HALVES = {"bx": "start", "bpt": "start", "ex": "end", "ept": "end"}
HALF_ID = re.compile(r"""[^>]*\s(?:rid|i)=["']([^"']*)|[^>]*\sid=["']([^"']*)""")

ONE = (
    r"(?:\$?\{\{?[\w.]+(?:,[^{}]*)?\}?\}|(?<![0-9%])%(?:[0-9]+\$|\([\w.]+\))?"
    r"[-+0#]*[0-9]*(?:\.[0-9]+)?l{0,2}[sdifuxXceg@](?![^\W\d_]))"
)
# Those that stand as words have one of the blanks around them: the text keeps single blanks.
PLACEHOLDER = rf"(?: {ONE})+(?=(?:<[^<>]*>)*$)|(?<![^ ]){ONE} |{ONE}"


def _pattern(kind: str) -> str:
    attributes = ATTRIBUTES[kind]
    code = rf"<(?P<code>{CODE[kind]})(?=[\s>]){attributes}>.*?</(?P=code)\s*>"
    tag = rf"<(?P<slash>/?)(?P<name>{NAME[kind]}){attributes}(?P<empty>/?)>"
    return f"{code}|{tag}|{OTHER[kind]}"


# By kind, and by whether placeholders are markup.
MARKUP = {
    (XML, False): re.compile(_pattern(XML)),
    (XML, True): re.compile(f"{_pattern(XML)}|{PLACEHOLDER}"),
    (HTML, False): re.compile(_pattern(HTML)),
    (HTML, True): re.compile(f"{_pattern(HTML)}|{PLACEHOLDER}"),
}


class Tag(NamedTuple):
    """A tag, or an element whose content is no text."""

    raw: str
    kind: str  # "start", "end" or "empty"
    name: str  # a start and an end of one name go together
    is_half: bool  # of two empty elements that make a span
    offset: int  # in the text


class Element(NamedTuple):
    """An element: two tags; or one that stands alone, whose ``close`` is ''."""

    open: str
    close: str
    whole: str  # its own tags and those within it
    kind: str  # of its first tag
    begin: int  # in the text
    end: int
    path: tuple[int, ...]  # elements around it, from outside
    once: bool  # may not be closed and opened again


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
    for match in MARKUP[kind, placeholders].finditer(line):
        text += _text(line, place, match.start(), kind)
        tags.append(_tag(match, kind, len(text)))
        place = match.end()
    text += _text(line, place, len(line), kind)
    return text, _elements(tags, strict=kind == XML)


def _text(line: str, begin: int, end: int, kind: str) -> str:
    wrong = NO_TEXT.search(line, begin, end)
    if wrong and kind == XML:
        place = wrong.start()
        raise InputError(f"column {place + 1}: bad {line[place : place + 12]!r}; {HINT}")
    return html.unescape(line[begin:end])


def _tag(match: re.Match[str], kind: str, offset: int) -> Tag:
    raw = match[0]
    name = match["code"] or match["name"] or ""
    is_empty = not match["name"] or bool(match["empty"])
    if kind == HTML:
        name = name.lower()
        is_empty = is_empty or name in VOID
    if name in HALVES and is_empty:
        found = HALF_ID.match(raw)
        number = found[found.lastindex or 0] if found else ""
        return Tag(raw, HALVES[name], f"half {number}", True, offset)
    role = "end" if match["slash"] else "empty" if is_empty else "start"
    return Tag(raw, role, name, False, offset)


def _elements(tags: list[Tag], *, strict: bool) -> list[Element]:
    """Elements of tags; what has no partner stands alone, or is refused if strict."""
    partner = _partners(tags, strict)
    ends = set(partner.values())
    elements: list[Element] = []
    path: tuple[int, ...] = ()
    for place, tag in enumerate(tags):
        if place in ends:
            path = path[:-1]
            continue
        last = partner.get(place, place)
        close = tags[last].raw if last > place else ""
        whole = "".join(inner.raw for inner in tags[place : last + 1])
        end = tags[last].offset
        once = tag.is_half
        elements.append(Element(tag.raw, close, whole, tag.kind, tag.offset, end, path, once))
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
            raise InputError(f"{tag.raw} closes another element; open: {found}; {HINT}")
    for start in opened:
        if strict and not tags[start].is_half:
            raise InputError(f"{tags[start].raw} is not closed; {HINT}")
    return partner


Path = tuple[int, ...]  # elements around a word, from outside
Placed = tuple[str, bool]  # a tag, and whether it is right behind the word before it
Report = Callable[[str], None]


def unreported(message: str) -> None:
    """The report of those who do not want one."""


def project_tags(
    source: str,
    target: str,
    links: Iterable[Link],
    *,
    unique: bool = False,
    markup: str = XML,
    placeholders: bool = True,
    tokenizer: Tokenizer = blank_words,
    report: Report = unreported,
) -> str:
    """The translation with the markup of the source; its text stays as it is.

    Examples:
        >>> project_tags("das <b>rote</b> haus", "the red house", [(0, 0), (1, 1), (2, 2)])
        'the <b>red</b> house'

    Args:
        source: a line with inline elements, and placeholders such as {0} or %s.
        target: its translation, plain text.
        links: pairs of words (source, target), of the texts without markup.
        unique: no element is closed and opened again; ids must not repeat in XLIFF.
        markup: ``xml`` is strict, ``html`` lenient.
        placeholders: whether {0} and %s are markup.
        tokenizer: the words of a text, as character offsets.
        report: called with a line for each element that was not placed, was divided or joined.
    """
    text, elements = parse_markup(source, kind=markup, placeholders=placeholders)
    for match in MARKUP[markup, placeholders].finditer(target):
        found = match[0].strip()
        if found not in text:
            raise InputError(
                f"the translation already has {found!r}; translate the text that --plain writes"
            )
    words, target_words = tokenizer(text), tokenizer(target)
    ordered = checked_links(links, len(words), len(target_words))
    of_source = [_path_of(word, text, elements, report) for word in words]
    paths = _linked_paths(of_source, ordered, len(target_words))
    _join(paths, elements, unique, report)
    anchored = _anchored(paths, elements, words, ordered, report)
    return _written(target, target_words, elements, paths, anchored)


def _common(one: Path, other: Path) -> Path:
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    return one[:count]


def _path_of(word: Span, text: str, elements: Sequence[Element], report: Report) -> Path:
    """The deepest element that has a part of a word, with those around it."""
    begin, end = word
    deepest: Path = ()
    for number, element in enumerate(elements):
        if not element.close or element.begin >= end or element.end <= begin:
            continue
        if begin < element.begin or element.end < end:
            report(f"{element.open} in the word {text[begin:end]!r} takes it whole")
        if len(element.path) >= len(deepest):
            deepest = (*element.path, number)
    return deepest


def _linked_paths(of_source: Sequence[Path], links: Sequence[Link], count: int) -> list[Path]:
    """Which elements each word of the translation is in."""
    votes: list[Counter[Path]] = [Counter() for _ in range(count)]
    for source, target in links:
        votes[target][of_source[source]] += 1
    around_all = of_source[0] if of_source else ()
    for path in of_source:
        around_all = _common(around_all, path)
    paths: list[Path] = []
    for place, own in enumerate(votes):
        if own:
            paths.append(own.most_common(1)[0][0])
            continue
        # What the words around it share; elements of all words go on to the edges.
        before = paths[-1] if paths else around_all
        later = next((other for other in votes[place:] if other), None)
        after = later.most_common(1)[0][0] if later else around_all
        paths.append(_common(before, after))
    return paths


def _join(paths: list[Path], elements: Sequence[Element], unique: bool, report: Report) -> None:
    """Makes one span of elements that must be: with all words between, or of the longest part."""
    for number, element in enumerate(elements):
        places = [place for place, path in enumerate(paths) if number in path]
        runs = runs_of(places)
        if len(runs) < 2:
            continue
        if not (unique or element.once):
            report(f"{element.open} is divided into {len(runs)}")
            continue
        between = set(range(places[0], places[-1])) - set(places)
        if all(paths[place] == element.path for place in between):
            report(f"{element.open} takes {len(between)} more words to be one span")
            for place in between:
                paths[place] = (*element.path, number)
            continue
        kept = max(runs, key=len)
        left = set(places) - set(kept)
        report(f"{element.open} leaves {len(left)} words to be one span")
        for place in left:
            paths[place] = element.path


def _anchored(
    paths: Sequence[Path],
    elements: Sequence[Element],
    words: Sequence[Span],
    links: Sequence[Link],
    report: Report,
) -> dict[int, list[tuple[Element, bool]]]:
    """By word of the translation: what goes before it and has no words here.

    Each with whether it clings to the word before it, as in the source.
    """
    placed = {number for path in paths for number in path}
    ends = [end for _, end in words]
    targets: dict[int, list[int]] = {}
    for source, target in links:
        targets.setdefault(source, []).append(target)
    anchored: dict[int, list[tuple[Element, bool]]] = {}
    for number, element in enumerate(elements):
        if number in placed or not placed.issuperset(element.path):
            continue  # it has words; or is within another one without words
        follows = bisect_right(ends, element.begin)
        is_end = element.kind == "end" and follows > 0
        is_first = element.kind == "start" and not element.close and follows == 0
        word = follows - 1 if is_end else follows
        nearest = min(targets, key=lambda source: abs(source - word), default=word)
        gap = len(paths)
        if is_first:
            gap = 0
        elif word < len(words):
            if element.begin < element.end or word not in targets:
                report(f"{element.open}: no link says where it goes; it is near the words around")
            if nearest < word or (is_end and nearest == word):
                gap = max(targets.get(nearest, [gap - 1])) + 1
            else:
                gap = min(targets.get(nearest, [gap]))
        clings = is_end or (element.begin in ends and not element.close)
        anchored.setdefault(gap, []).append((element, clings))
    return anchored


def _written(
    target: str,
    words: Sequence[Span],
    elements: Sequence[Element],
    paths: Sequence[Path],
    anchored: dict[int, list[tuple[Element, bool]]],
) -> str:
    """The translation with all tags: ends behind a word, starts before the next one."""
    parts: list[str] = []
    done = 0
    current: Path = ()
    for place, (begin, end) in enumerate([*words, (len(target), len(target))]):
        after = paths[place] if place < len(words) else ()
        tags: list[Placed] = []
        for element, clings in anchored.get(place, ()):
            own = element.path  # it goes where nothing must be opened for it alone
            near = (_common(own, current), _common(own, after), _common(current, after))
            goal = max(near, key=len)
            tags += [*_steps(current, goal, elements), (element.whole, clings)]
            current = goal
        tags += _steps(current, after, elements)
        behind = list(takewhile(itemgetter(1), tags))
        parts += [raw for raw, _ in behind]
        parts.append(html.escape(target[done:begin], quote=False))
        parts += [raw for raw, _ in tags[len(behind) :]]
        parts.append(html.escape(target[begin:end], quote=False))
        done, current = end, after
    return "".join(parts)


def _steps(current: Path, goal: Path, elements: Sequence[Element]) -> list[Placed]:
    """The tags that lead from some elements into others."""
    kept = len(_common(current, goal))
    closed = [(elements[number].close, True) for number in reversed(current[kept:])]
    return closed + [(elements[number].open, False) for number in goal[kept:]]
