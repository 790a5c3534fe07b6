"""Dependency trees in CoNLL-U (universaldependencies.org/format.html)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, zip_longest
from pathlib import Path
from typing import NamedTuple

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import name_of, read_lines

NO_BREAK = "\u00a0"
COLUMNS = 10


class Tree(NamedTuple):
    """A sentence of surface words. Words count from 0; the root's head is -1."""

    words: list[str]
    heads: list[int]
    relations: list[str]  # to the head, with subtype if there is one
    where: str  # for error messages

    @property
    def root(self) -> int:
        return self.heads.index(-1)


class _Row(NamedTuple):
    number: int
    form: str
    head: int
    relation: str


def read_conllu(path: str | Path) -> Iterator[Tree]:
    """The trees of a file, over words as they are written.

    A multiword token (``3-4 zum``) is one word. It takes its head and relation from the first of
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
    for filled, lines in groupby(numbered, key=lambda item: bool(item[1].strip())):
        if filled:
            yield list(lines)


def _trees(lines: list[tuple[int, str]], name: str) -> Iterator[Tree]:
    """The tree of some lines; none if they are comments only."""
    rows, ranges = [], []
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
        if re.fullmatch(r"\d+-\d+", fields[0]):
            ranges.append((*map(int, fields[0].split("-")), _form(fields[1]), where))
        elif not re.fullmatch(r"\d+\.\d+", fields[0]):
            rows.append(_row(fields, len(rows) + 1, where))
    if rows:
        yield _surface(rows, ranges, f"{name}:{lines[0][0]}")


def _form(text: str) -> str:
    return text.replace(" ", NO_BREAK)


def _row(fields: list[str], expected: int, where: str) -> _Row:
    if fields[0] != str(expected):
        raise InputError(f"{where}: word number {fields[0]!r}; expected {expected}")
    if not fields[6].isdecimal():
        raise InputError(
            f"{where}: head {fields[6]!r} of word {expected}; expected a number, 0 for the root"
        )
    return _Row(expected, _form(fields[1]), int(fields[6]), fields[7])


def _surface(rows: list[_Row], ranges: list[tuple], where: str) -> Tree:
    """Syntactic words, numbered from 1, to surface words."""
    _check(rows, where)
    forms, place = {row.number: row.form for row in rows}, {row.number: row.number for row in rows}
    for first, last, form, range_where in ranges:
        if not 1 <= first < last <= len(rows):
            raise InputError(
                f"{range_where}: multiword token {first}-{last}; expected words of the sentence"
            )
        place.update(dict.fromkeys(range(first, last + 1), first))
        forms[first] = form
    index = {number: i for i, number in enumerate(sorted(set(place.values())))}
    of_word = {
        number: index[place[number]] for number in place
    }  # syntactic word from 1 → surface word from 0
    heads, relations = {}, {}
    for row in sorted(
        rows, key=lambda row: _depth(row, rows)
    ):  # the part nearest to the root: so it stays a tree
        word = of_word[row.number]
        if word not in heads:
            heads[word], relations[word] = of_word.get(row.head, -1), row.relation
    return Tree(
        [forms[number] for number in index],
        [heads[word] for word in range(len(index))],
        [relations[word] for word in range(len(index))],
        where,
    )


def _depth(row: _Row, rows: list[_Row]) -> int:
    """How many words are above one."""
    depth = 0
    while row.head:
        row, depth = rows[row.head - 1], depth + 1
    return depth


def _check(rows: list[_Row], where: str) -> None:
    roots = sum(row.head == 0 for row in rows)
    if roots != 1:
        raise InputError(f"{where}: the sentence has {roots} roots; expected 1")
    for row in rows:
        if row.head > len(rows):
            raise InputError(
                f"{where}: head {row.head} of word {row.number}; the sentence has {len(rows)} words"
            )
        seen, number = set(), row.number
        while number and number not in seen:
            seen.add(number)
            number = rows[number - 1].head
        if number:
            raise InputError(f"{where}: word {number} is its own ancestor; expected a tree")


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
            here, there = next(
                pair for pair in zip_longest(tree.words, words, fillvalue="") if pair[0] != pair[1]
            )
            raise InputError(
                f"{tree.where}: sentence {number} has the word {here!r}, and {name} {there!r}; "
                "expected a treebank of the same text"
            )
