"""Markup of a source, carried over to a plain translation by word links.

Each word of the translation takes the elements of the source words that it is linked to. A word
without links takes those that its neighbours share. So elements nest as in the source; one whose
words land in several places is closed and opened again. Tags that stand alone go before the word
that is linked to the word behind them, as in CAT tools.

A word with a tag inside is divided there, if its only translation begins or ends with the same
letters: ``(<b>Haus</b>)`` and ``(house)``.
"""

from __future__ import annotations

import html
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from itertools import accumulate, chain, pairwise, takewhile
from operator import itemgetter

from fairseq_normalign.errors import InputError
from fairseq_normalign.text.links import Link
from fairseq_normalign.text.markup import (
    XML,
    Element,
    Path,
    marked_words,
    markup_pattern,
    parse_markup,
)
from fairseq_normalign.text.offsets import Span, Tokenizer, blank_words, checked_links, runs_of

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
    for match in markup_pattern(markup, placeholders).finditer(target):
        found = match[0].strip()
        if found not in text:
            raise InputError(
                f"the translation already has {found!r}; translate the text that --plain writes"
            )
    words, target_words = marked_words(text, elements, tokenizer), tokenizer(target)
    ordered = checked_links(links, len(words), len(target_words))
    edges = sorted({edge for element in elements for edge in (element.begin, element.end)})
    words, target_words, ordered = _cut(text, words, target, target_words, ordered, edges)
    of_source = [_path_of(word, text, elements, report) for word in words]
    paths = _linked_paths(of_source, ordered, len(target_words))
    _join(paths, elements, unique, report)
    anchored = _anchored(paths, elements, words, ordered, report)
    return _written(target, target_words, elements, paths, anchored)


def _cut(
    text: str,
    words: Sequence[Span],
    target: str,
    target_words: Sequence[Span],
    links: Sequence[Link],
    edges: Sequence[int],
) -> tuple[list[Span], list[Span], list[Link]]:
    """Words and links, with a word and its only translation divided at tags inside, if they can."""
    counts = Counter(source for source, _ in links)
    target_counts = Counter(other for _, other in links)
    parts = [[word] for word in words]
    target_parts = [[word] for word in target_words]
    for source, other in links:
        if counts[source] == target_counts[other] == 1:
            cut = _parts(text, words[source], target, target_words[other], edges)
            parts[source], target_parts[other] = cut
    firsts = [0, *accumulate(map(len, parts))]
    target_firsts = [0, *accumulate(map(len, target_parts))]
    new_links: list[Link] = []
    for source, other in links:
        for part in range(len(parts[source])):
            new_links.append((firsts[source] + part, target_firsts[other] + part))
    return list(chain(*parts)), list(chain(*target_parts)), new_links


def _parts(
    text: str, word: Span, target: str, other: Span, edges: Sequence[int]
) -> tuple[list[Span], list[Span]]:
    """Two words, divided at the edges before or behind which they have the same letters."""
    (begin, end), (other_begin, other_end) = word, other
    here, there = [begin], [other_begin]
    for edge in edges[bisect_right(edges, begin) : bisect_left(edges, end)]:
        place = other_begin + edge - begin
        if text[begin:edge] != target[other_begin:place]:
            place = other_end - (end - edge)
            if text[edge:end] != target[place:other_end]:
                continue
        if there[-1] < place < other_end:
            here.append(edge)
            there.append(place)
    return list(pairwise([*here, end])), list(pairwise([*there, other_end]))


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
        has_part = element.close and element.begin < end and begin < element.end
        if has_part and len(element.path) >= len(deepest):
            deepest = (*element.path, number)
    for element in map(elements.__getitem__, deepest):
        if begin < element.begin or element.end < end:
            report(f"{element.open} in the word {text[begin:end]!r} takes it whole")
    return deepest


def _linked_paths(of_source: Sequence[Path], links: Sequence[Link], count: int) -> list[Path]:
    """Which elements each word of the translation is in."""
    votes: list[Counter[Path]] = [Counter() for _ in range(count)]
    for source, target in links:
        votes[target][of_source[source]] += 1
    around_all = reduce(_common, of_source) if of_source else ()
    paths: list[Path] = []
    for place, own in enumerate(votes):
        if own:
            paths.append(own.most_common(1)[0][0])
            continue
        # What the words around it share, if the source has text there: a row has none outside its
        # cells. Elements of all words go on to the edges.
        before = paths[-1] if paths else around_all
        later = next((other for other in votes[place:] if other), None)
        after = later.most_common(1)[0][0] if later else around_all
        shared = _common(before, after)
        paths.append(shared if shared in of_source else max(before, after, key=len))
    return paths


def _join(paths: list[Path], elements: Sequence[Element], unique: bool, report: Report) -> None:
    """Makes one span of elements that must be: with all words between, or of the longest part."""
    for number, element in enumerate(elements):
        places = [place for place, path in enumerate(paths) if number in path]
        runs = runs_of(places)
        if len(runs) < 2:
            continue
        if not (unique or element.tag.is_half):
            report(f"{element.open} is divided into {len(runs)}")
            continue
        between = set(range(places[0], places[-1])) - set(places)
        if all(paths[place] == element.path for place in between):
            report(f"{element.open} takes words between to be one span: {len(between)}")
            for place in between:
                paths[place] = (*element.path, number)
            continue
        kept = max(runs, key=len)
        left = set(places) - set(kept)
        report(f"{element.open} leaves out words to be one span: {len(left)}")
        for place in left:
            paths[place] = element.path


def _anchored(
    paths: Sequence[Path],
    elements: Sequence[Element],
    words: Sequence[Span],
    links: Sequence[Link],
    report: Report,
) -> dict[int, list[Element]]:
    """By word of the translation: what goes before it and has no words here."""
    placed = {number for path in paths for number in path}
    ends = [end for _, end in words]
    anchored: dict[int, list[Element]] = {}
    for number, element in enumerate(elements):
        if number in placed or not placed.issuperset(element.path):
            continue  # it has words; or is within another one without words
        word = bisect_right(ends, element.begin)  # the one behind it
        is_open = (
            element.tag.kind != "empty" and not element.close
        )  # as a line is cut out of a page
        gap = 0 if is_open and word == 0 else _gap(word, len(words), links, len(paths))
        if element.begin < element.end:
            report(f"{element.open} is left empty: no word of the translation is its own")
        elif word < len(words) and all(source != word for source, _ in links):
            report(f"{element.open}: the word behind it has no link; it is near the others")
        elif word < len(words) and words[word][0] < element.begin:
            report(f"{element.open} was inside a word; it is before it")
        # Not into elements that it is not in.
        while 0 < gap < len(paths):
            around = _common(paths[gap - 1], paths[gap])
            if _common(element.path, around) == around:
                break
            gap -= 1
        anchored.setdefault(gap, []).append(element)
    return anchored


def _gap(word: int, words: int, links: Sequence[Link], count: int) -> int:
    """Before which word of the translation something goes that is before a word of the source."""
    if word == words or not links:
        return count
    nearest = min((source for source, _ in links), key=lambda source: abs(source - word))
    targets = [target for source, target in links if source == nearest]
    return max(targets) + 1 if nearest < word else min(targets)


def _written(
    target: str,
    words: Sequence[Span],
    elements: Sequence[Element],
    paths: Sequence[Path],
    anchored: dict[int, list[Element]],
) -> str:
    """The translation with all tags: ends behind a word, starts before the next one."""
    parts: list[str] = []
    done = 0
    current: Path = ()
    for place, (begin, end) in enumerate([*words, (len(target), len(target))]):
        after = paths[place] if place < len(words) else ()
        tags: list[Placed] = []
        for element in anchored.get(place, ()):
            own = element.path  # it goes where nothing must be opened for it alone
            near = (_common(own, current), _common(own, after), _common(current, after))
            goal = max(near, key=len)
            clings = element.tag.is_behind and not element.close
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
