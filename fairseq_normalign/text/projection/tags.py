"""Markup of a source, carried over to a plain translation by word links.

Each word of the translation takes the elements of the source words that it is linked to. A word
without links takes those that its neighbours share. So elements nest as in the source; one whose
words land in several places is closed and opened again. Tags that stand alone go before the word
that is linked to the word behind them, as in CAT tools.
"""

from __future__ import annotations

import html
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from fairseq_normalign.errors import InputError
from fairseq_normalign.text.links import Link
from fairseq_normalign.text.projection.markup import (
    HTML,
    PLACEHOLDER,
    TAG,
    TEXT,
    XML,
    Element,
    Markup,
    parse_markup,
)
from fairseq_normalign.text.projection.offsets import Span, Tokenizer, checked_links, runs_of
from fairseq_normalign.text.projection.offsets import blank_words as blank_words

Path = tuple[int, ...]  # elements around a word, from outside
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
        markup: ``xml`` is strict, ``html`` lenient; in ``text``, < and & are text.
        placeholders: whether {0} and %s are markup.
        tokenizer: the words of a text, as character offsets.
        report: is called with what could not be placed, was divided or was joined.
    """
    parsed = parse_markup(source, kind=markup, placeholders=placeholders)
    _refuse_markup(target, parsed.text, markup, placeholders)
    source_words, target_words = tokenizer(parsed.text), tokenizer(target)
    ordered = checked_links(links, len(source_words), len(target_words))
    placing = Placing(parsed.elements, source_words, len(target_words), ordered, report)
    placing.find_paths(parsed)
    placing.make_unique(all_elements=unique)
    placing.find_anchors()
    gaps = _gaps(target, target_words)
    return placing.written(target, target_words, gaps, escape=markup != TEXT)


def _refuse_markup(target: str, source_text: str, markup: str, placeholders: bool) -> None:
    """Refuses tags and placeholders in a translation, but for those that are text in the source."""
    patterns = [] if markup == TEXT else [TAG[HTML if markup == HTML else XML]]
    for pattern in [*patterns, PLACEHOLDER] if placeholders else patterns:
        for match in pattern.finditer(target):
            if match[0] not in source_text:
                raise InputError(
                    f"the translation already has {match[0]!r}; translate the text that --plain "
                    "writes (or is it text? see --text and --no-placeholders)"
                )


def _gaps(text: str, words: Sequence[Span]) -> list[Span]:
    """What is between words, before the first and behind the last."""
    begins = [0, *(end for _, end in words)]
    ends = [*(begin for begin, _ in words), len(text)]
    return list(zip(begins, ends, strict=True))


def _common(one: Path, other: Path) -> Path:
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    return one[:count]


@dataclass
class Placing:
    """Where the elements of one pair go."""

    elements: list[Element]
    source_words: list[Span]
    count: int  # words of the translation
    links: list[Link]
    report: Report
    paths: list[Path] = field(default_factory=list)  # of the words of the translation
    anchored: dict[int, list[int]] = field(default_factory=dict)  # by gap: elements without words

    def find_paths(self, parsed: Markup) -> None:
        """Which elements each word of the translation is in."""
        sources = [self._path_of(word, parsed) for word in self.source_words]
        linked: list[list[Path]] = [[] for _ in range(self.count)]
        for source, target in self.links:
            linked[target].append(sources[source])
        whole = sources[0] if sources else ()
        for own in sources:
            whole = _common(whole, own)
        found = [Counter(paths).most_common(1)[0][0] if paths else None for paths in linked]
        self.paths = []
        for place, path in enumerate(found):
            if path is None:  # what the words around it share; elements of all words go on
                before = self.paths[-1] if self.paths else whole
                after = next((later for later in found[place:] if later is not None), whole)
                path = _common(before, after)
            self.paths.append(path)

    def _path_of(self, word: Span, parsed: Markup) -> Path:
        """The deepest element with a part of the word; elsewhere its edges would be in the word."""
        begin, end = word
        path: Path = ()
        for number, element in enumerate(self.elements):
            if element.close and element.begin < end and begin < element.end:
                if begin < element.begin or element.end < end:
                    self.report(
                        f"{element.open} in the word {parsed.text[begin:end]!r} takes it whole"
                    )
                if element.path == path[: len(element.path)] and len(element.path) >= len(path):
                    path = (*element.path, number)
        return path

    def make_unique(self, *, all_elements: bool) -> None:
        """Makes one span of elements that must be: all words between, or the longest part."""
        for number, element in enumerate(self.elements):
            places = [place for place, path in enumerate(self.paths) if number in path]
            runs = list(runs_of(places))
            if len(runs) < 2:
                continue
            if not (all_elements or element.once):
                self.report(f"{element.open} is divided into {len(runs)}")
                continue
            hull = range(places[0], places[-1] + 1)
            between = [place for place in hull if place not in places]
            if all(self.paths[place] == element.path for place in between):
                self.report(f"{element.open} takes {len(between)} more words to be one span")
                for place in between:
                    self.paths[place] = (*element.path, number)
                continue
            kept = max(runs, key=len)
            self.report(f"{element.open} leaves {len(places) - len(kept)} words to be one span")
            for place in set(places) - set(kept):
                self.paths[place] = self.paths[place][: len(element.path)]

    def find_anchors(self) -> None:
        """Gaps for tags that stand alone, and for elements that have no word here."""
        placed = {number for path in self.paths for number in path}
        for number, element in enumerate(self.elements):
            if number in placed or not placed.issuperset(element.path):
                continue  # in a word; or within another one without words
            self.anchored.setdefault(self._gap_of(element), []).append(number)

    def _gap_of(self, element: Element) -> int:
        """The gap before the word that follows the element's beginning."""
        follows = bisect_right([end for _, end in self.source_words], element.begin)
        has_words = element.close and follows < len(self.source_words)
        has_words = has_words and self.source_words[follows][0] < element.end
        if has_words:
            self.report(f"{element.open}: none of its words is linked; it is empty now")
        last = len(self.source_words)
        if element.alone == "start" and follows == 0:
            return 0
        if follows == last:
            return self.count
        if element.alone == "end" and follows > 0:
            return self._nearest(follows - 1, element, behind=True)
        return self._nearest(follows, element, behind=False)

    def _nearest(self, word: int, element: Element, *, behind: bool) -> int:
        """The gap before or behind a word's translation, or near that of the nearest linked one."""
        targets: dict[int, list[int]] = {}
        for source, target in self.links:
            targets.setdefault(source, []).append(target)
        if word in targets:
            return targets[word][-1] + 1 if behind else targets[word][0]
        if not element.close:
            self.report(f"{element.open}: its word is not linked; it is placed by the nearest one")
        if not targets:
            return 0 if word == 0 and not behind else self.count
        nearest = min(targets, key=lambda source: (abs(source - word), source))
        return targets[nearest][-1] + 1 if nearest < word else targets[nearest][0]

    def written(
        self, target: str, words: Sequence[Span], gaps: Sequence[Span], *, escape: bool
    ) -> str:
        """The translation with all tags."""
        write = (lambda text: html.escape(text, quote=False)) if escape else str
        parts = []
        for place, (begin, end) in enumerate(gaps):
            before = self.paths[place - 1] if place > 0 else ()
            after = self.paths[place] if place < self.count else ()
            done = begin
            for tag, blanks, is_behind in self._tags_between(place, before, after):
                at = begin + blanks if is_behind else end - blanks
                at = min(max(at, done), end)
                parts += [write(target[done:at]), tag]
                done = at
            parts.append(write(target[done:end]))
            if place < self.count:
                parts.append(write(target[slice(*words[place])]))
        return "".join(parts)

    def _tags_between(self, gap: int, before: Path, after: Path) -> list[tuple[str, int, bool]]:
        """Tags between two words; how many blanks are behind the word before, or else after."""
        tags: list[tuple[str, int, bool]] = []
        current = before
        for number in [*self.anchored.get(gap, ()), None]:
            element = None if number is None else self.elements[number]
            goal = after
            if element is not None:  # where no element must be opened for it alone
                own = element.path
                near = [_common(own, current), _common(own, after), _common(current, after)]
                goal = max(near, key=len)
            kept = len(_common(current, goal))
            for closed in reversed(current[kept:]):
                tags.append((self.elements[closed].close, self._blanks(closed, behind=True), True))
            for opened in goal[kept:]:
                tags.append((self.elements[opened].open, self._blanks(opened, behind=False), False))
            if number is not None and element is not None:
                is_end = element.alone == "end"
                raw = "".join(element.tags)
                tags.append((raw, self._blanks(number, behind=is_end), is_end))
            current = goal
        return tags

    def _blanks(self, number: int, *, behind: bool) -> int:
        """Blanks between a tag and the next word of the source, or the word before it."""
        element = self.elements[number]
        if behind:
            before = [end for _, end in self.source_words if end <= element.end]
            return element.end - before[-1] if before else 0
        follows = [begin for begin, _ in self.source_words if begin >= element.begin]
        return follows[0] - element.begin if follows else 0
