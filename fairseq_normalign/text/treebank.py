"""Dependency trees in CoNLL-U (universaldependencies.org/format.html)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, zip_longest
from pathlib import Path
from typing import NamedTuple

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import name_of, read_lines, split_words

NO_BREAK = "\u00a0"
COLUMNS = 10
NUMBER = re.compile("[0-9]{1,9}")  # as many digits as any sentence needs
RANGE = re.compile("([0-9]{1,9})-([0-9]{1,9})")
EMPTY_NODE = re.compile(r"[0-9]+\.[0-9]+")


class Tree(NamedTuple):
    """A sentence of surface words. Words count from 0; the root's head is -1."""

    words: list[str]
    heads: list[int]
    relations: list[str]  # to the head, with subtype if there is one
    where: str  # for error messages
    tags: Sequence[str] = ()  # parts of speech (UPOS)

    @property
    def root(self) -> int:
        return self.heads.index(-1)


class _Row(NamedTuple):
    number: int
    form: str
    head: int
    relation: str
    tag: str


class _Range(NamedTuple):
    """A multiword token."""

    first: int
    last: int
    form: str
    before: int  # how many words stand before it
    where: str


def read_conllu(path: str | Path) -> Iterator[Tree]:
    """The trees of a file, over words as they are written.

    A multiword token (``3-4 zum``) is one word. It takes head, relation and tag from the first of
    its parts whose head lies outside it; all dependents of its parts are its own. Empty nodes
    (``5.1``) and comments are skipped. A blank inside a word becomes a no-break space.
    """
    none = True
    for lines in _paragraphs(path):
        for tree in _trees(lines, name_of(path)):
            none = False
            yield tree
    if none:
        raise InputError(f"{name_of(path)}: has no sentence; expected CoNLL-U")


def _paragraphs(path: str | Path) -> Iterator[list[tuple[int, str]]]:
    """Numbered lines, from 1, between empty ones."""
    numbered = ((number, line.rstrip("\r\n")) for number, line in enumerate(read_lines(path), 1))
    for has_text, lines in groupby(numbered, key=lambda pair: bool(split_words(pair[1]))):
        if has_text:
            yield list(lines)


def _trees(lines: list[tuple[int, str]], name: str) -> Iterator[Tree]:
    """The tree of some lines; none if they are comments only."""
    rows: list[_Row] = []
    ranges: list[_Range] = []
    for number, line in lines:
        if line.startswith("#"):
            continue
        fields = line.split("\t")
        where = f"{name}:{number}"
        if len(fields) != COLUMNS:
            raise InputError(
                f"{where}: {len(fields)} columns; expected the {COLUMNS} of CoNLL-U, with tabs "
                "between"
            )
        span = RANGE.fullmatch(fields[0])
        if span:
            first, last = int(span[1]), int(span[2])
            ranges.append(_Range(first, last, _form(fields[1]), len(rows), where))
        elif not EMPTY_NODE.fullmatch(fields[0]):
            rows.append(_row(fields, len(rows) + 1, where))
    where = f"{name}:{lines[0][0]}"
    if rows:
        yield _surface(rows, ranges, where)
    elif not all(line.startswith("#") for _, line in lines):
        raise InputError(
            f"{where}: the sentence has multiword tokens or empty nodes alone; expected words"
        )


def _form(text: str) -> str:
    return text.replace(" ", NO_BREAK)


def _row(fields: list[str], expected: int, where: str) -> _Row:
    if fields[0] != str(expected):
        raise InputError(f"{where}: word number {fields[0][:40]!r}; expected {expected}")
    if not NUMBER.fullmatch(fields[6]):
        raise InputError(
            f"{where}: head {fields[6][:40]!r} of word {expected}; expected a number, 0 for the "
            "root"
        )
    return _Row(expected, _form(fields[1]), int(fields[6]), fields[7], fields[3])


def _surface(rows: list[_Row], ranges: list[_Range], where: str) -> Tree:
    """Syntactic words, numbered from 1, to surface words."""
    _check(rows, where)
    depths = _depths(rows, where)
    forms = {row.number: row.form for row in rows}
    place = {row.number: row.number for row in rows}  # the first part of each word's token
    end = 0
    for first, last, form, before, range_where in ranges:
        if not end < first < last <= len(rows):
            raise InputError(
                f"{range_where}: multiword token {first}-{last}; expected words of the sentence, "
                "each in one token"
            )
        if first != before + 1:
            raise InputError(
                f"{range_where}: multiword token {first}-{last} stands before word {before + 1}; "
                "expected it before its first word"
            )
        place.update(dict.fromkeys(range(first, last + 1), first))
        forms[first] = form
        end = last
    index = {number: word for word, number in enumerate(sorted(set(place.values())))}
    heads: dict[int, int] = {}
    relations: dict[int, str] = {}
    tags: dict[int, str] = {}
    for row in sorted(rows, key=lambda row: depths[row.number]):
        word = index[place[row.number]]
        if word not in heads:  # the part nearest to the root counts: so it stays a tree
            heads[word] = index[place[row.head]] if row.head else -1
            relations[word] = row.relation
            tags[word] = row.tag
    return Tree(
        [forms[number] for number in index],
        [heads[word] for word in range(len(index))],
        [relations[word] for word in range(len(index))],
        where,
        [tags[word] for word in range(len(index))],
    )


def _check(rows: list[_Row], where: str) -> None:
    roots = sum(row.head == 0 for row in rows)
    if roots != 1:
        raise InputError(f"{where}: the sentence has {roots} roots; expected 1")
    for row in rows:
        if row.head > len(rows):
            raise InputError(
                f"{where}: head {row.head} of word {row.number}; the sentence has {len(rows)} words"
            )


def _depths(rows: list[_Row], where: str) -> dict[int, int]:
    """How many words are above each word; refuses words that are above themselves."""
    depths = {0: -1}  # 0 is what the root depends on
    for row in rows:
        number = row.number
        path: dict[int, None] = {}  # upwards, to a word whose depth is known
        while number not in depths:
            if number in path:
                raise InputError(f"{where}: word {number} is its own ancestor; expected a tree")
            path[number] = None
            number = rows[number - 1].head
        for steps, above in enumerate(reversed(path), 1):
            depths[above] = depths[number] + steps
    return depths


def lowercased(tree: Tree) -> Tree:
    return tree._replace(words=[word.lower() for word in tree.words])


def check_text(trees: Iterable[Tree], lines: Iterable[Sequence[str]], name: str) -> None:
    """Refuses trees that are not those of a text, sentence by sentence."""
    for number, (tree, words) in enumerate(zip_longest(trees, lines), 1):
        if tree is None or words is None:
            longer = "the treebank" if words is None else name
            raise InputError(
                f"sentence {number}: only {longer} has it; expected a treebank of the same text"
            )
        if tree.words != list(words):
            here, there = _first_difference(tree.words, words)
            raise InputError(
                f"{tree.where}: sentence {number} has the word {here!r}, and {name} {there!r}; "
                "expected a treebank of the same text"
            )


def _first_difference(words: Sequence[str], others: Sequence[str]) -> tuple[str, str]:
    """The first words of two sentences that differ, '' after the end of the shorter one."""
    pairs = zip_longest(words, others, fillvalue="")
    return next((word, other) for word, other in pairs if word != other)
