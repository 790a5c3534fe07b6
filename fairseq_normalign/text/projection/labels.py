"""Labelled spans of a source, carried over to its translation by word links."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fairseq_normalign.errors import InputError
from fairseq_normalign.text.links import Link
from fairseq_normalign.text.projection.offsets import checked_links, runs_of

LABEL = re.compile(r"O|([BIESLU])-(.+)")
OUTCOMES = ("projected", "divided", "cut", "lost")


class Labelled(NamedTuple):
    """A span of words, the last one excluded."""

    begin: int
    end: int
    label: str


def project_labels(
    labels: Sequence[str], words: Sequence[str], links: Iterable[Link], *, split: bool = False
) -> list[str]:
    """IOB2 labels of the words of a translation.

    Examples:
        >>> project_labels(["B-LOC", "O"], ["i", "like", "Bonn"], [(0, 2), (1, 1)])
        ['O', 'O', 'B-LOC']

    Args:
        labels: those of the source words, as BIO, IOB2 or BIOES.
        words: those of the translation.
        links: pairs of words (source, target).
        split: a span whose words land in several places becomes several.
    """
    ordered = checked_links(links, len(labels), len(words))
    spans, _ = project_spans(read_labels(labels), ordered, split=split)
    return written_labels(spans, len(words))


def read_labels(labels: Sequence[str]) -> list[Labelled]:
    """The spans of BIO, IOB2 or BIOES labels."""
    spans: list[Labelled] = []
    for place, text in enumerate(labels):
        match = LABEL.fullmatch(text)
        if match is None:
            raise InputError(f"bad label {text[:40]!r}; expected O, B-NAME or I-NAME")
        mark, name = match.groups()
        if mark is None:
            continue
        last = spans[-1] if spans else None
        if mark in "IEL" and last is not None and last.end == place and last.label == name:
            spans[-1] = last._replace(end=place + 1)
        else:
            spans.append(Labelled(place, place + 1, name))
    return spans


def written_labels(spans: Iterable[Labelled], count: int) -> list[str]:
    labels = ["O"] * count
    for begin, end, name in spans:
        labels[begin:end] = [f"B-{name}"] + [f"I-{name}"] * (end - begin - 1)
    return labels


def project_spans(
    spans: Sequence[Labelled], links: Sequence[Link], *, split: bool = False
) -> tuple[list[Labelled], list[str]]:
    """Spans of the translation, and what became of each span of the source.

    A span maps to the smallest one that covers its linked words. Where words of another span are
    between, the longest part remains. With ``split``, all parts remain, and only gaps of one word
    without links are closed.
    """
    owner = _owners(spans, links)
    linked = {target for _, target in links}
    found: list[Labelled] = []
    outcomes: list[str] = []
    for number, span in enumerate(spans):
        places = sorted(place for place, own in owner.items() if own == number)
        if not places:
            outcomes.append("lost")
            continue
        gaps = [place for place in range(places[0], places[-1]) if place not in linked]
        closed = [place for place in gaps if owner.get(place - 1) == owner.get(place + 1) == number]
        runs = list(runs_of(sorted({*places, *closed})))
        outcome = "projected"
        if len(runs) > 1 and split:
            outcome = "divided"
        elif len(runs) > 1:
            hull = list(range(places[0], places[-1] + 1))
            is_crossed = any(owner.get(place, number) != number for place in hull)
            outcome = "cut" if is_crossed else "projected"
            runs = [max(runs, key=len) if is_crossed else hull]
        outcomes.append(outcome)
        found += [Labelled(run[0], run[-1] + 1, span.label) for run in runs]
    return sorted(found), outcomes


def _owners(spans: Sequence[Labelled], links: Sequence[Link]) -> dict[int, int]:
    """By word of the translation: the span with most links to it, the first one if equal."""
    counts: dict[int, Counter[int]] = {}
    for source, target in links:
        for number, (begin, end, _) in enumerate(spans):
            if begin <= source < end:
                counts.setdefault(target, Counter())[number] += 1
    return {target: own.most_common(1)[0][0] for target, own in counts.items()}
