"""What terms of a glossary were translated to, by word links."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import name_of, read_lines
from fairseq_normalign.text.links import Link
from fairseq_normalign.text.projection.offsets import (
    Span,
    Tokenizer,
    blank_words,
    checked_links,
    runs_of,
    texts_of,
)


class TermUse(NamedTuple):
    """A term of the glossary in a source."""

    term: str
    translation: str  # the words linked to it; " … " where others are between
    expected: str  # the glossary's translations
    status: str  # ok; elsewhere: in the translation, but not linked to the term; missing


def read_glossary(path: str) -> dict[str, list[str]]:
    """Terms and their translations, from lines ``source<TAB>target``; further columns are left."""
    glossary: dict[str, list[str]] = {}
    for number, line in enumerate(read_lines(path), 1):
        columns = [column.strip() for column in line.split("\t")]
        if not any(columns):
            continue
        if len(columns) < 2 or not (columns[0] and columns[1]):
            raise InputError(
                f"{name_of(path)}:{number}: one column: {line.strip()[:40]!r}; expected a term, a "
                "tab and its translation"
            )
        glossary.setdefault(columns[0], []).append(columns[1])
    return glossary


def check_terms(
    source: str,
    target: str,
    links: Iterable[Link],
    glossary: Mapping[str, Sequence[str]],
    *,
    tokenizer: Tokenizer = blank_words,
) -> list[TermUse]:
    """Each term of the glossary in a source: what it was translated to, and whether that is right.

    Words are compared without case, whole and as they are written. Where terms overlap, the longest
    is taken.

    Examples:
        >>> check_terms("das haus", "the home", [(0, 0), (1, 1)], {"haus": ["house"]})
        [TermUse(term='haus', translation='home', expected='house', status='missing')]

    Args:
        glossary: translations by term.
    """
    source_words, target_words = tokenizer(source), tokenizer(target)
    ordered = checked_links(links, len(source_words), len(target_words))
    uses: list[tuple[int, TermUse]] = []
    taken: set[int] = set()
    for term in sorted(glossary, key=len, reverse=True):
        for begin, end in _occurrences(term, source, source_words, tokenizer):
            if taken.isdisjoint(range(begin, end)):
                taken.update(range(begin, end))
                linked = sorted({link[1] for link in ordered if begin <= link[0] < end})
                found = [
                    occurrence
                    for own in glossary[term]
                    for occurrence in _occurrences(own, target, target_words, tokenizer)
                ]
                parts = [
                    target[target_words[run[0]][0] : target_words[run[-1]][1]]
                    for run in runs_of(linked)
                ]
                use = TermUse(
                    term, " … ".join(parts), " | ".join(glossary[term]), _status(found, linked)
                )
                uses.append((begin, use))
    return [use for _, use in sorted(uses)]


def _status(found: Iterable[Span], linked: Sequence[int]) -> str:
    places = [set(range(begin, end)) for begin, end in found]
    if any(not place.isdisjoint(linked) for place in places):
        return "ok"
    return "elsewhere" if places else "missing"


def _occurrences(
    term: str, text: str, words: Sequence[Span], tokenizer: Tokenizer
) -> Iterable[Span]:
    """Where the words of a term are among the words of a text."""
    wanted = [word.casefold() for word in texts_of(term, tokenizer(term))]
    own = [word.casefold() for word in texts_of(text, words)]
    count = len(wanted)
    return [
        (place, place + count)
        for place in range(len(own) - count + 1)
        if count and own[place : place + count] == wanted
    ]
