"""Dependency trees in CoNLL-U (universaldependencies.org/format.html)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import name_of, read_lines, split_words

NO_BREAK = "\u00a0"
COLUMNS = 10
FORM, TAG, HEAD, RELATION = 1, 3, 6, 7
EXPECTED = "expected CoNLL-U: 10 columns with tabs between, words numbered from 1, heads as numbers"
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
    """A syntactic word. Words count from 1, and the head of the root is 0."""

    form: str
    head: int
    relation: str
    tag: str


def read_conllu(path: str | Path) -> Iterator[Tree]:
    """The trees of a file, over words as they are written.

    A multiword token (``3-4 zum``) is one word. It takes head, relation and tag from the first of
    its parts whose head lies outside it; all dependents of its parts are its own. Empty nodes
    (``5.1``) and comments are skipped. A blank inside a word becomes a no-break space.
    """
    name, none = name_of(path), True
    numbered = ((number, line.rstrip("\r\n")) for number, line in enumerate(read_lines(path), 1))
    for has_text, group in groupby(numbered, key=lambda pair: bool(split_words(pair[1]))):
        lines = list(group)
        if has_text and not all(line.startswith("#") for _, line in lines):
            none = False
            yield _surface(*_rows(lines, name), f"{name}:{lines[0][0]}")
    if none:
        raise InputError(f"{name}: has no sentence; expected CoNLL-U")


def _rows(
    lines: Sequence[tuple[int, str]], name: str
) -> tuple[list[_Row], dict[int, tuple[int, str]]]:
    """The syntactic words of numbered lines; and the last word and the form of multiword tokens.

    The tokens are found by their first word.
    """
    rows: list[_Row] = []
    tokens: dict[int, tuple[int, str]] = {}
    for line_number, line in lines:
        if line.startswith("#"):
            continue
        fields = line.split("\t")
        number = fields[0]
        if EMPTY_NODE.fullmatch(number):
            continue
        span = RANGE.fullmatch(number)
        first = span[1] if span else number
        is_word = len(fields) == COLUMNS and (span or NUMBER.fullmatch(fields[HEAD]))
        if not is_word or first != str(len(rows) + 1):
            raise InputError(f"{name}:{line_number}: bad line {line[:40]!r}; {EXPECTED}")
        form = fields[FORM].replace(" ", NO_BREAK)
        if span:
            tokens[int(first)] = int(span[2]), form
        else:
            rows.append(_Row(form, int(fields[HEAD]), fields[RELATION], fields[TAG]))
    return rows, tokens


def _surface(rows: Sequence[_Row], tokens: dict[int, tuple[int, str]], where: str) -> Tree:
    """Syntactic words, numbered from 1, to surface words."""
    depths = _depths(rows, where)
    forms: list[str] = []
    nearest: list[int] = []  # of each token: the part nearest to the root, so it stays a tree
    token_of = {0: -1}
    number = 1
    while number <= len(rows):
        last, form = tokens.pop(number, (number, rows[number - 1].form))
        if not number <= last <= len(rows):
            break
        parts = range(number, last + 1)
        token_of |= dict.fromkeys(parts, len(forms))
        forms.append(form)
        nearest.append(min(parts, key=depths.__getitem__))
        number = last + 1
    if tokens or number <= len(rows):
        raise InputError(f"{where}: multiword tokens overlap, or go beyond the sentence")
    chosen = [rows[part - 1] for part in nearest]
    return Tree(
        forms,
        [token_of[row.head] for row in chosen],
        [row.relation for row in chosen],
        where,
        [row.tag for row in chosen],
    )


def _depths(rows: Sequence[_Row], where: str) -> dict[int, int]:
    """How many words are above each word, from the root downwards."""
    dependents: dict[int, list[int]] = defaultdict(list)
    for number, row in enumerate(rows, 1):
        dependents[row.head].append(number)
    depths = {0: -1}  # 0 is what the root depends on
    reached = [0]
    for number in reached:  # grows by what depends on it
        for dependent in dependents[number]:
            depths[dependent] = depths[number] + 1
            reached.append(dependent)
    if len(dependents[0]) != 1 or len(reached) <= len(rows):
        raise InputError(f"{where}: the heads of the sentence make no tree with one root")
    return depths


def lowercased(tree: Tree) -> Tree:
    return tree._replace(words=[word.lower() for word in tree.words])
