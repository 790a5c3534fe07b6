"""What terms of a glossary were translated to, by word links."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import name_of, read_lines
from fairseq_normalign.text.links import Link
from fairseq_normalign.text.offsets import (
    Tokenizer,
    blank_words,
    checked_links,
    runs_of,
    texts_of,
)

STATUSES = ("ok", "elsewhere", "missing")


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
        term, _, rest = line.partition("\t")
        translation = rest.split("\t")[0].strip()
        if term.strip() and translation:
            glossary.setdefault(term.strip(), []).append(translation)
        elif line.strip():
            raise InputError(
                f"{name_of(path)}:{number}: one column: {line.strip()[:40]!r}; expected a term, a "
                "tab and its translation"
            )
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
    words, target_words = tokenizer(source), tokenizer(target)
    ordered = checked_links(links, len(words), len(target_words))
    uses: dict[int, TermUse] = {}
    taken: set[int] = set()
    for term in sorted(glossary, key=len, reverse=True):
        for place in _places(term, texts_of(source, words), tokenizer):
            if not taken.isdisjoint(place):
                continue
            taken.update(place)
            linked = sorted({other for own, other in ordered if own in place})
            translation = " … ".join(
                target[target_words[run[0]][0] : target_words[run[-1]][1]]
                for run in runs_of(linked)
            )
            status = "missing"
            for expected in glossary[term]:
                for found in _places(expected, texts_of(target, target_words), tokenizer):
                    if status != "ok":
                        status = "elsewhere" if set(linked).isdisjoint(found) else "ok"
            uses[place[0]] = TermUse(term, translation, " | ".join(glossary[term]), status)
    return [uses[begin] for begin in sorted(uses)]


def _places(term: str, words: Sequence[str], tokenizer: Tokenizer) -> list[range]:
    """Where a term is among words."""
    wanted = [word.casefold() for word in texts_of(term, tokenizer(term))]
    own = [word.casefold() for word in words]
    starts = range(len(own) - len(wanted) + 1) if wanted else ()
    places = [range(start, start + len(wanted)) for start in starts]
    return [place for place in places if own[place.start : place.stop] == wanted]
