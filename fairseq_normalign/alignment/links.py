"""Links of a sentence pair, read from and written to Pharaoh, talp and NAACL/WPT files.

Pharaoh and talp have one line per sentence pair: ``i-j`` is a sure link, ``ipj`` a possible one,
source word first; a link may carry a confidence, ``i-j:0.93``. NAACL/WPT has one line per link:
``sentence source target [S|P] [confidence]``, with sentences in ascending order and sentences
without links left out (Mihalcea and Pedersen, 2003).
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import name_of, read_lines

Link = tuple[int, int]
FORMATS = ("auto", "pharaoh", "talp", "naacl")

TOKEN = re.compile(r"([0-9]+)[-p]([0-9]+)(?::[0-9.eE+-]+)?")
NAACL = re.compile(r"([0-9]+)\s+([0-9]+)\s+([0-9]+)(?:\s+([SP]))?(?:\s+[0-9.eE+-]+)?")
NONE: frozenset = frozenset()
WORD_BITS = 32
WORD_MASK = (1 << WORD_BITS) - 1
CACHED_TOKENS = (
    1 << 20
)  # more than the pairs of two 1,000-word sentences; with confidences, every token may be new


class Gold(NamedTuple):
    """The reference links of a sentence pair; ``possible`` includes ``sure``."""

    sure: set[Link]
    possible: set[Link]


def pack(link: Link) -> int:
    """A link as one number, source first: hashes three times as fast as a pair, and sorts the
    same."""
    return link[0] << WORD_BITS | link[1]


def unpack(links: Iterable[int]) -> set[Link]:
    """Pairs again."""
    return {(link >> WORD_BITS, link & WORD_MASK) for link in links}


class _Links(dict):
    """Token -> link, filled as tokens come: a corpus repeats few tokens many times, and a look-up
    beats parsing."""

    def __init__(self, index: int, reverse: bool, packed: bool) -> None:
        self.index, self.reverse, self.packed = index, reverse, packed

    def __missing__(self, token: str) -> Any:
        match = TOKEN.fullmatch(token)
        if match is None:
            raise InputError(f"bad link {_clip(token)}; expected 'i-j' (sure) or 'ipj' (possible)")
        source, target = int(match[1]) - self.index, int(match[2]) - self.index
        if source < 0 or target < 0:
            raise InputError(
                f"link {token!r} has index 0 where words are counted from 1; is the file 0-based?"
            )
        pair = (target, source) if self.reverse else (source, target)
        link = pack(pair) if self.packed else pair
        if len(self) < CACHED_TOKENS:
            self[token] = link
        return link


class _Texts(dict):
    """Link -> its Pharaoh text, filled as links come."""

    def __init__(self, index: int) -> None:
        self.index = index

    def __missing__(self, link: Link) -> str:
        text = f"{link[0] + self.index}-{link[1] + self.index}"
        if len(self) < CACHED_TOKENS:
            self[link] = text
        return text


@functools.cache
def _links(index: int, reverse: bool, packed: bool = False) -> _Links:
    return _Links(index, reverse, packed)


@functools.cache
def _texts(index: int) -> _Texts:
    return _Texts(index)


def _clip(text: str, width: int = 40) -> str:
    return repr(text if len(text) <= width else text[:width] + "…")


def parse_links(line: str, *, index: int = 0, reverse: bool = False, where: str = "") -> set[Link]:
    """The links of a Pharaoh or talp line, sure and possible alike.

    Args:
        line: links separated by white space; an empty line has none.
        index: what the file calls the first word, 0 or 1.
        reverse: the line has the target word first.
        where: put before error messages, e.g. ``file:12``.
    """
    try:
        return set(map(_links(index, reverse).__getitem__, line.split()))
    except InputError as error:
        raise _located(where, error) from None


def parse_gold(
    line: str, *, index: int = 0, reverse: bool = False, sure: str = "-", where: str = ""
) -> Gold:
    """The sure and possible links of a talp line; ``sure`` is the separator that marks sure
    links."""
    try:
        possible, unsure = _gold(line, _links(index, reverse), sure)
    except InputError as error:
        raise _located(where, error) from None
    return Gold(possible - unsure, possible)


def _gold(line: str, links: _Links, sure: str) -> tuple[set, Set]:
    """The possible links, sure ones included, and the few that are not sure."""
    tokens = line.split()
    possible = set(map(links.__getitem__, tokens))
    if sure == "-" and "p" not in line:
        return possible, NONE
    marked = {links[token] for token in tokens if "p" in token}
    if sure == "p":
        return possible, possible - marked
    if len(possible) < len(tokens):  # a link may stand there twice, as sure and as possible
        marked -= {links[token] for token in tokens if "p" not in token}
    return possible, marked


def format_links(
    links: Iterable[Link],
    *,
    index: int = 0,
    reverse: bool = False,
    confidences: Sequence[float] | None = None,
) -> str:
    """A Pharaoh line, links in ascending order.

    Args:
        links: pairs (source, target).
        index: what the file calls the first word, 0 or 1.
        reverse: write the target word first.
        confidences: one per link, in the order of ``links``; written as ``i-j:0.930``.
    """
    pairs = [(t, s) for s, t in links] if reverse else list(links)
    texts = _texts(index)
    if confidences is None:
        return " ".join(map(texts.__getitem__, sorted(pairs)))
    if len(confidences) != len(pairs):
        raise ValueError(f"{len(confidences)} confidences for {len(pairs)} links")
    return " ".join(
        f"{texts[pair]}:{value:.3f}" for pair, value in sorted(zip(pairs, confidences, strict=True))
    )


def _located(where: str, error: Exception) -> InputError:
    return InputError(f"{where}: {error}" if where else str(error))


class LinkFile:
    """The links of a file, one sentence pair at a time, in constant memory.

    Iterating yields sets of links. ``format`` ``auto`` tells NAACL from Pharaoh and talp by the
    first line with text.
    """

    empty: Any = NONE

    def __init__(
        self, path: str | Path, *, index: int = 0, reverse: bool = False, format: str = "auto"
    ) -> None:
        self.path, self.name, self.index, self.reverse = path, name_of(path), index, reverse
        self.format = format

    def __iter__(self) -> Iterator[Any]:
        return self.read()

    def read(self, *, packed: bool = False) -> Iterator[Any]:
        """The links of each sentence pair; ``packed`` as numbers instead of pairs."""
        parse, links = self._parse, _links(self.index, self.reverse, packed)

        def parse_at(line: str, number: int) -> Any:
            try:
                return parse(line, links)
            except InputError as error:
                raise _located(
                    f"{self.name}:{' sentence ' if self.open_ended else ''}{number}", error
                ) from None

        return map(parse_at, self._lines(), itertools.count(1))

    def _parse(self, line: str, links: _Links) -> Any:
        return set(map(links.__getitem__, line.split()))

    def _lines(self) -> Iterator[str]:
        lines = read_lines(self.path)
        if self.format == "auto":
            self.format, lines = _recognise(lines)
        return (
            _talp_lines(lines, null=self.index == 1, name=self.name)
            if self.format == "naacl"
            else lines
        )

    @property
    def open_ended(self) -> bool:
        """NAACL cannot say that the last sentences have no links: the file may be shorter than the
        corpus."""
        return self.format == "naacl"


class GoldFile(LinkFile):
    """The reference links of a file. Iterating yields ``Gold``; ``read`` yields (possible links,
    those not sure).

    Args:
        sure: the separator that marks sure links, ``-`` or ``p``.
        possible: ``keep``; ``drop`` them; or count them as ``sure``.
    """

    empty = Gold(NONE, NONE)

    def __init__(
        self, path: str | Path, *, sure: str = "-", possible: str = "keep", **options: Any
    ) -> None:
        super().__init__(path, **options)
        self.sure, self.possible = sure, possible

    def _parse(self, line: str, links: _Links) -> Any:
        possible, unsure = gold = _gold(line, links, self.sure)
        if self.possible == "keep":
            return gold
        return (possible if self.possible == "sure" else possible - unsure), NONE

    def __iter__(self) -> Iterator[Gold]:
        return (Gold(possible - unsure, possible) for possible, unsure in self.read())


def _recognise(lines: Iterator[str]) -> tuple[str, Iterator[str]]:
    """The format of the lines, and the same lines again."""
    seen = []
    for line in lines:
        seen.append(line)
        if line.strip():
            break
    naacl = bool(seen) and NAACL.fullmatch(seen[-1].strip()) is not None
    return ("naacl" if naacl else "talp"), itertools.chain(seen, lines)


def _talp_lines(lines: Iterable[str], *, null: bool, name: str) -> Iterator[str]:
    """NAACL lines as talp lines, one per sentence; sentences without links become empty lines.

    Args:
        null: index 0 is the empty word (files that count from 1); such links are left out.
    """
    sentence, tokens = None, []
    for number, line in enumerate(lines, 1):
        fields = line.split()
        if not fields:
            continue
        match = NAACL.fullmatch(" ".join(fields))
        if match is None:
            raise InputError(
                f"{name}:{number}: bad line {_clip(line.strip())}; expected 'sentence source "
                "target [S|P]'"
            )
        current, source, target = map(int, match.groups()[:3])
        if sentence is None:
            sentence = min(current, 1)
        if current < sentence:
            raise InputError(
                f"{name}:{number}: sentence {current} after {sentence}; expected ascending order"
            )
        for _ in range(current - sentence):
            yield " ".join(tokens)
            tokens = []
        sentence = current
        if not (null and 0 in (source, target)):
            tokens.append(f"{source}{'p' if match[4] == 'P' else '-'}{target}")
    if sentence is not None:
        yield " ".join(tokens)


class InMemory:
    """Items of any kind, one for each sentence pair, to be read together with files."""

    open_ended = False

    def __init__(self, name: str, items: Iterable[Any]) -> None:
        self.name, self.items = name, items

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)


def read_together(*files: Any, packed: bool = False) -> Iterator[tuple]:
    """One tuple per sentence pair; files of unequal length are refused.

    NAACL files are filled up with sentences without links. ``packed`` reads links as numbers.
    """
    streams = [
        file.read(packed=True) if packed and isinstance(file, LinkFile) else iter(file)
        for file in files
    ]
    for number, row in enumerate(itertools.zip_longest(*streams)):
        if None in row:
            ended = [
                item is None and not file.open_ended for file, item in zip(files, row, strict=True)
            ]
            if any(ended):
                raise _unequal(files, row, streams, number)
            row = tuple(
                file.empty if item is None else item for file, item in zip(files, row, strict=True)
            )
        yield row


def _unequal(
    files: Sequence[Any], row: tuple, streams: Sequence[Iterator], number: int
) -> InputError:
    counts = [
        f"{file.name} has {number + (0 if item is None else 1 + sum(1 for _ in stream))}"
        for file, item, stream in zip(files, row, streams, strict=True)
    ]
    return InputError(
        f"line counts differ: {', '.join(counts)} lines; expected one line per sentence pair in "
        "each"
    )
