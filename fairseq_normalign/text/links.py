"""Links of a sentence pair, read from and written to Pharaoh, talp and NAACL/WPT files.

Pharaoh and talp have one line per sentence pair: ``i-j`` is a sure link, ``ipj`` a possible one,
source word first; a link may carry a confidence, ``i-j:0.93``. NAACL/WPT has one line per link:
``sentence source target [S|P] [confidence]``, with sentences in ascending order and sentences
without links left out (Mihalcea and Pedersen, 2003).

Numbers of words end below 2³¹: no sentence is as long, and two such numbers fit a packed link.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple

from fairseq_normalign.decimals import PATTERN
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import is_stream, name_of, read_lines, split_words

Link = tuple[int, int]
FORMATS = ("auto", "pharaoh", "talp", "naacl")

TOKEN = re.compile(rf"([0-9]+)[-p]([0-9]+)(?::{PATTERN})?")
NAACL = re.compile(rf"([0-9]+) ([0-9]+) ([0-9]+)(?: ([SP]))?(?: {PATTERN})?")
NONE: frozenset = frozenset()
WORD_BITS = 32
WORD_MASK = (1 << WORD_BITS) - 1
MOST = 2**31 - 1  # the largest number of a word
DIGITS = len(str(MOST))
# More than the pairs of two 1,000-word sentences; with confidences, every token may be new.
CACHED_TOKENS = 1 << 20
MOST_EMPTY = 1_000_000  # sentences without links between two lines of a NAACL file
# How far a file is counted after the end of a shorter one: stdin may never end, …
MOST_COUNTED = 1_000_000
MOST_MADE = 1000  # … and what is in no file may be made by a model, sentence by sentence


class Gold(NamedTuple):
    """The reference links of a sentence pair; ``possible`` includes ``sure``."""

    sure: Set[Link]
    possible: Set[Link]


class PackedGold(NamedTuple):
    """The same, with links as :func:`pack` makes them."""

    sure: Set[int]
    possible: Set[int]


def pack(link: Link) -> int:
    """A link as one number, source first.

    It hashes three times as fast as a pair, and sorts the same.
    """
    return link[0] << WORD_BITS | link[1]


def unpack(links: Iterable[int]) -> set[Link]:
    """Pairs again."""
    return {(link >> WORD_BITS, link & WORD_MASK) for link in links}


class _Links(dict):
    """Token -> link, filled as tokens come.

    A corpus repeats few tokens many times, and a look-up beats parsing.
    """

    def __init__(self, index: int, reverse: bool, packed: bool) -> None:
        self.index, self.reverse, self.packed = index, reverse, packed

    def __missing__(self, token: str) -> Any:
        match = TOKEN.fullmatch(token)
        if match is None:
            raise InputError(f"bad link {_clip(token)}; expected 'i-j' (sure) or 'ipj' (possible)")
        source = _number(match[1], token) - self.index
        target = _number(match[2], token) - self.index
        if source < 0 or target < 0:
            raise InputError(
                f"link {_clip(token)} has index 0 where words are counted from 1; is the file "
                "0-based?"
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


def _number(digits: str, text: str) -> int:
    """The number of a word; ``text``, where it stands, is for the error message.

    Too many digits are refused unread: Python itself reads some thousands at most.
    """
    if len(digits) < DIGITS:
        return int(digits)
    significant = digits.lstrip("0") or "0"
    if len(significant) > DIGITS or int(significant) > MOST:
        raise InputError(f"{_clip(text)} has a number above {MOST}; expected numbers of words")
    return int(significant)


def _clip(text: str, width: int = 40) -> str:
    if len(text) > width:
        text = text[:width] + "…"
    return repr(text)


def parse_links(line: str, *, index: int = 0, reverse: bool = False, where: str = "") -> set[Link]:
    """The links of a Pharaoh or talp line, sure and possible alike.

    Args:
        line: links separated by white space of ASCII; an empty line has none.
        index: what the file calls the first word, 0 or 1.
        reverse: the line has the target word first.
        where: put before error messages, e.g. ``file:12``.
    """
    try:
        return set(map(_links(index, reverse).__getitem__, split_words(line)))
    except InputError as error:
        raise _located(where, error) from None


def parse_gold(
    line: str, *, index: int = 0, reverse: bool = False, sure: str = "-", where: str = ""
) -> Gold:
    """The sure and possible links of a talp line; ``sure`` separates the words of a sure link."""
    try:
        possible, unsure = _gold(line, _links(index, reverse), sure)
    except InputError as error:
        raise _located(where, error) from None
    return Gold(possible - unsure, possible)


def _gold(line: str, links: _Links, sure: str) -> tuple[set, Set]:
    """The possible links, sure ones included, and the few that are not sure."""
    tokens = split_words(line)
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
    pairs = list(links)
    if reverse:
        pairs = [(target, source) for source, target in pairs]
    texts = _texts(index)
    if confidences is None:
        return " ".join(map(texts.__getitem__, sorted(pairs)))
    if len(confidences) != len(pairs):
        raise ValueError(f"{len(confidences)} confidences for {len(pairs)} links")
    ordered = sorted(zip(pairs, confidences, strict=True))
    return " ".join(f"{texts[pair]}:{confidence:.3f}" for pair, confidence in ordered)


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
        self.path, self.name = path, name_of(path)
        self.index, self.reverse, self.format = index, reverse, format

    def __iter__(self) -> Iterator[Any]:
        return self.read()

    def read(self, *, packed: bool = False) -> Iterator[Any]:
        """The links of each sentence pair; ``packed`` as numbers instead of pairs."""
        parse = self._parse
        links = _links(self.index, self.reverse, packed)

        def parse_at(line: str, number: int) -> Any:
            try:
                return parse(line, links)
            except InputError as error:
                place = f" sentence {number}" if self.open_ended else str(number)
                raise _located(f"{self.name}:{place}", error) from None

        return map(parse_at, self._lines(), itertools.count(1))

    def _parse(self, line: str, links: _Links) -> Any:
        return set(map(links.__getitem__, split_words(line)))

    def _lines(self) -> Iterator[str]:
        lines = read_lines(self.path)
        if self.format == "auto":
            self.format, lines = _recognise(lines)
        if self.format == "naacl":
            return _talp_lines(lines, null=self.index == 1, name=self.name)
        return lines

    @property
    def open_ended(self) -> bool:
        """Whether the file may be shorter than the corpus.

        NAACL cannot say that the last sentences have no links.
        """
        return self.format == "naacl"


class GoldFile(LinkFile):
    """The reference links of a file.

    Iterating yields ``Gold``; ``read`` yields the possible links and those of them that are not
    sure.

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

    def read_as(self) -> dict[str, Any]:
        """How it is read, as signatures tell it."""
        reverse = "ref" if self.reverse else "none"
        return {"ref-index": self.index, "reverse": reverse, "possible": self.possible}

    def _parse(self, line: str, links: _Links) -> Any:
        possible, unsure = gold = _gold(line, links, self.sure)
        if self.possible == "keep":
            return gold
        if self.possible == "sure":
            return possible, NONE
        return possible - unsure, NONE

    def __iter__(self) -> Iterator[Gold]:
        return (Gold(possible - unsure, possible) for possible, unsure in self.read())


def _recognise(lines: Iterator[str]) -> tuple[str, Iterator[str]]:
    """The format of the lines, and the same lines again."""
    seen = []
    for line in lines:
        seen.append(line)
        if split_words(line):
            break
    is_naacl = bool(seen) and NAACL.fullmatch(" ".join(split_words(seen[-1]))) is not None
    format = "naacl" if is_naacl else "talp"
    return format, itertools.chain(seen, lines)


def _talp_lines(lines: Iterable[str], *, null: bool, name: str) -> Iterator[str]:
    """NAACL lines as talp lines, one per sentence; sentences without links become empty lines.

    Args:
        null: index 0 is the empty word (files that count from 1); such links are left out.
    """
    sentence: int | None = None
    tokens: list[str] = []
    for number, line in enumerate(lines, 1):
        text = " ".join(split_words(line))
        if not text:
            continue
        try:
            current, source, target, mark = _naacl_fields(text)
            if sentence is None:
                sentence = min(current, 1)
            _check_order(sentence, current)
        except InputError as error:
            raise _located(f"{name}:{number}", error) from None
        for _ in range(current - sentence):
            yield " ".join(tokens)
            tokens = []
        sentence = current
        if not (null and 0 in (source, target)):
            tokens.append(f"{source}{mark}{target}")
    if sentence is not None:
        yield " ".join(tokens)


def _naacl_fields(text: str) -> tuple[int, int, int, str]:
    """Sentence, source word, target word, and talp's mark of the link."""
    match = NAACL.fullmatch(text)
    if match is None:
        raise InputError(f"bad line {_clip(text)}; expected 'sentence source target [S|P]'")
    *numbers, mark = match.groups()
    sentence, source, target = (_number(digits, text) for digits in numbers)
    return sentence, source, target, "p" if mark == "P" else "-"


def _check_order(before: int, current: int) -> None:
    if current < before:
        raise InputError(f"sentence {current} after {before}; expected ascending order")
    if current - before > MOST_EMPTY:
        raise InputError(
            f"sentence {current} after {before}; expected at most {MOST_EMPTY} sentences without "
            "links between two lines: is the first number that of the sentence?"
        )


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
    streams = [_stream(file, packed) for file in files]
    for number, items in enumerate(itertools.zip_longest(*streams)):
        yield _filled_up(files, items, streams, number) if None in items else items


def refuse_other_count(file: LinkFile, total: int | None) -> None:
    """Refuses links of fewer or more pairs than the corpus has, before it is worked on.

    Nothing is said of a pipe, which can be read only once, and of a corpus that is one.
    """
    if total is None or is_stream(file.path):
        return
    count = sum(1 for _ in file)
    if count > total or (count < total and not file.open_ended):
        raise InputError(
            f"line counts differ: {file.name} has {count}, the corpus has {total} lines; expected "
            "one line per sentence pair in each"
        )


def _stream(file: Any, packed: bool) -> Iterator[Any]:
    if packed and isinstance(file, LinkFile):
        return file.read(packed=True)
    return iter(file)


def _filled_up(
    files: Sequence[Any], items: tuple, streams: Sequence[Iterator], number: int
) -> tuple:
    """The items of a sentence pair that some files do not have, if these may be shorter."""
    full = []
    for file, item in zip(files, items, strict=True):
        if item is None and not file.open_ended:
            raise _unequal(files, items, streams, number)
        full.append(file.empty if item is None else item)
    return tuple(full)


def _unequal(
    files: Sequence[Any], items: tuple, streams: Sequence[Iterator], number: int
) -> InputError:
    counts = []
    for file, item, stream in zip(files, items, streams, strict=True):
        count = str(number) if item is None else _count_on(file, stream, number + 1)
        counts.append(f"{file.name} has {count}")
    return InputError(
        f"line counts differ: {', '.join(counts)} lines; expected one line per sentence pair in "
        "each"
    )


def _count_on(file: Any, stream: Iterator, seen: int) -> str:
    """How many items there are, ``seen`` ones included, unless it takes long to find out."""
    limit = MOST_MADE if isinstance(file, InMemory) else MOST_COUNTED
    rest = sum(1 for _ in itertools.islice(stream, limit))
    count = seen + rest
    return f"more than {count - 1}" if rest == limit else str(count)
