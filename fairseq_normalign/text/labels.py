"""Labelled spans and terms of a source, in its translation by word links."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import name_of, read_lines
from fairseq_normalign.strict_json import parse_json
from fairseq_normalign.text.links import Link
from fairseq_normalign.text.offsets import (
    Span,
    Tokenizer,
    blank_words,
    checked_links,
    located,
    runs_of,
    texts_of,
)

LABEL = re.compile(r"O|([BIESLU])-(.+)")
OUTCOMES = ("projected", "split", "lost")
JSON_LINE = '{"text": …, "spans": [[start, end, label], …]}'


class Labelled(NamedTuple):
    """A span of words, the last one excluded."""

    begin: int
    end: int
    label: str


class Sentence(NamedTuple):
    """A sentence with labels."""

    words: list[str]
    spans: list[Labelled]
    layout: Any  # what is between CoNLL columns; or the object of a JSON line


def project_labels(labels: Sequence[str], words: Sequence[str], links: Iterable[Link]) -> list[str]:
    """IOB2 labels of the words of a translation.

    Examples:
        >>> project_labels(["B-LOC", "O"], ["i", "like", "Bonn"], [(0, 2), (1, 1)])
        ['O', 'O', 'B-LOC']

    Args:
        labels: those of the source words, as BIO, IOB2 or BIOES.
        words: those of the translation.
        links: pairs of words (source, target).
    """
    ordered = checked_links(links, len(labels), len(words))
    spans, _ = project_spans(read_labels(labels), ordered)
    return written_labels(spans, len(words))


def read_labels(labels: Sequence[str]) -> list[Labelled]:
    """The spans of BIO, IOB2 or BIOES labels."""
    spans: list[Labelled] = []
    for place, (mark, name) in enumerate(map(_parts, labels)):
        if mark is None:
            continue
        last = spans[-1] if spans else None
        if mark in "IEL" and last is not None and last.end == place and last.label == name:
            spans[-1] = last._replace(end=place + 1)
        else:
            spans.append(Labelled(place, place + 1, name))
    return spans


def _parts(label: str) -> tuple[str | None, str]:
    """The mark and the name of a label."""
    match = LABEL.fullmatch(label)
    if match is None:
        raise InputError(f"bad label {label[:40]!r}; expected O, B-NAME or I-NAME")
    return match[1], match[2]


def written_labels(spans: Iterable[Labelled], count: int) -> list[str]:
    labels = ["O"] * count
    for begin, end, name in spans:
        labels[begin:end] = [f"B-{name}"] + [f"I-{name}"] * (end - begin - 1)
    return labels


def project_spans(
    spans: Sequence[Labelled], links: Sequence[Link]
) -> tuple[list[Labelled], list[str]]:
    """Spans of the translation, and what became of each span of the source.

    A span maps to the smallest one that covers its linked words. It is cut where words of another
    span are between; the part with most linked words remains.
    """
    owner = _owners(spans, links)
    found: list[Labelled] = []
    outcomes: list[str] = []
    for number, span in enumerate(spans):
        places = sorted(place for place, own in owner.items() if own == number)
        if not places:
            outcomes.append("lost")
            continue
        hull = range(places[0], places[-1] + 1)
        parts = runs_of(place for place in hull if owner.get(place, number) == number)
        outcomes.append("split" if len(parts) > 1 else "projected")
        own = max((sorted(owner.keys() & part) for part in parts), key=len)
        found.append(Labelled(own[0], own[-1] + 1, span.label))
    return sorted(found), outcomes


def _owners(spans: Sequence[Labelled], links: Sequence[Link]) -> dict[int, int]:
    """By word of the translation: the span with most links to it, the first one if equal."""
    counts: dict[int, Counter[int]] = {}
    for source, target in links:
        for number, (begin, end, _) in enumerate(spans):
            if begin <= source < end:
                counts.setdefault(target, Counter())[number] += 1
    return {target: own.most_common(1)[0][0] for target, own in counts.items()}


def read_conll(lines: Iterable[str], name: str) -> Iterator[tuple[int, Sentence]]:
    """Sentences of columns, the word first and its label last, each with its first line."""
    rows: list[list[str]] = []
    separator = " "
    for number, line in enumerate([*lines, ""], 1):
        if line.strip():
            separator = "\t" if "\t" in line else " "
            rows.append(line.split("\t") if "\t" in line else line.split())
            with located(f"{name}:{number}"):
                _parts(rows[-1][-1])
        elif rows:
            spans = read_labels([row[-1] for row in rows])
            yield number - len(rows), Sentence([row[0] for row in rows], spans, separator)
            rows = []


def read_spans(line: str, tokenizer: Tokenizer) -> Sentence:
    """The sentence of a JSON line with "text" and "spans", which count characters."""
    try:
        item = parse_json(line)
        text, given = item["text"], sorted(item["spans"])
        is_right = all(0 <= begin < end <= len(text) for begin, end, _ in given)
    except (ValueError, TypeError, KeyError):
        is_right = False
    if not (is_right and isinstance(text, str)):
        raise InputError(f"bad line {line[:40]!r}; expected {JSON_LINE}, spans inside the text")
    words = tokenizer(text)
    spans: list[Labelled] = []
    for begin, end, label in given:
        inside = [place for place, word in enumerate(words) if word[0] < end and begin < word[1]]
        if inside and any(inside[0] < span.end for span in spans):
            raise InputError(
                f"span {[begin, end, label]} overlaps another, or is in the same word; project one "
                "layer of labels at a time"
            )
        first, last = (inside[0], inside[-1] + 1) if inside else (0, 0)  # it is lost
        spans.append(Labelled(first, last, str(label)))
    return Sentence(texts_of(text, words), spans, item)


def written(sentence: Sentence, target: str, words: Sequence[Span], spans: list[Labelled]) -> str:
    """A translation with labels, in the format of the source."""
    if isinstance(sentence.layout, dict):
        found = [[words[begin][0], words[end - 1][1], label] for begin, end, label in spans]
        item = {**sentence.layout, "text": target, "spans": found}
        return json.dumps(item, ensure_ascii=False)
    pairs = zip(texts_of(target, words), written_labels(spans, len(words)), strict=True)
    return "".join(f"{word}{sentence.layout}{label}\n" for word, label in pairs)


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
    spelt: dict[str, str] = {}  # the first spelling of a term, as case does not count
    for number, line in enumerate(read_lines(path), 1):
        term, translation, *_ = [*map(str.strip, line.split("\t")), ""]
        if term and translation:
            term = spelt.setdefault(term.casefold(), term)
            glossary.setdefault(term, []).append(translation)
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
    """Checks each term of the glossary: what it was translated to, and whether that is right.

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
